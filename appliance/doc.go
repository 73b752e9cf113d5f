// SPDX-License-Identifier: Apache-2.0

// Package appliance is the running product: it opens the data directory, the
// listeners and the engine in order, applies the topology, answers for its
// state, and stops everything in reverse.
//
// It owns goroutines and order; what each part does is in the part. The run
// command calls it. Order and ownership are written down in DESIGN.md.
package appliance
