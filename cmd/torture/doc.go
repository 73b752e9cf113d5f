// SPDX-License-Identifier: Apache-2.0

// Command torture cuts the power of a node under load, again and again, and
// judges what is left. `make test-power` and `make torture` call it;
// docs/ops/power-cuts.md says what a cut is and what the rules are.
//
// ledger.go keeps what clients know for sure, judge.go compares it with what a
// node holds after a cut: both are pure. The node is seen from outside, as a
// process, by stock clients. Image, mount and cut are in package loopdisk.
//
// Its verb cluster does the same to three nodes in networks of their own, with what
// happens to networks besides (cluster_*.go): `make test-cluster` calls it. Publishers,
// workers and books are the same; three copies are judged instead of one, and also while
// a node is cut off from the others.
package main
