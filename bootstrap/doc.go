// SPDX-License-Identifier: Apache-2.0

// Package bootstrap compares what the configuration asks for (Topology) with
// what the server has (Observed) and says what to do about it (Plan).
//
// It owns the comparison, the order of the work and the text of a plan; it does
// no I/O, reads no clock and knows no NATS package. bootstrap/jetstream observes
// and executes; appliance and the commands call both. The rules are in DESIGN.md.
package bootstrap
