// SPDX-License-Identifier: Apache-2.0

// Package loadtest puts a load on a node that runs, as its applications would: over
// its client port, with synchronous publishers and pulling workers. It owns the
// phases, the latencies, the scratch stream and the proof that what was acknowledged
// is stored and consumed, each message once and as it was sent.
//
// It knows a node only as a client does; `holdfast bench` calls it and finds the node.
package loadtest
