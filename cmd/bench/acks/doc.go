// SPDX-License-Identifier: Apache-2.0

// Package acks measures designs of the acknowledging side of a work queue. It owns the
// designs, with prototypes of what would run beside the server, the workloads, and the
// facts about the server that the designs rest on (facts_test.go). It is a client: its
// caller starts a nats-server with the configuration that the design asks for.
package acks
