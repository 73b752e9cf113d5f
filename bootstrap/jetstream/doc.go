// SPDX-License-Identifier: Apache-2.0

// Package jetstream reads streams and consumers from the running server
// (Observe), does what a plan says (Execute), keeps the record of what was applied
// (Revisions) and finds the age of the oldest message that waits
// (OldestUnacknowledged), over in-process connections.
//
// It is the only package of bootstrap that imports nats.go. It decides nothing:
// bootstrap compares and plans, appliance calls both.
package jetstream
