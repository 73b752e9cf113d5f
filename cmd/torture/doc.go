// SPDX-License-Identifier: Apache-2.0

// Command torture cuts the power of a node under load, again and again, and
// judges what is left. `make test-power` and `make torture` call it;
// docs/ops/power-cuts.md says what a cut is and what the rules are.
//
// ledger.go keeps what clients know for sure, judge.go compares it with what a
// node holds after a cut: both are pure. The node is seen from outside, as a
// process, by stock clients. Image, mount and cut are in disk_linux.go.
package main
