// SPDX-License-Identifier: Apache-2.0

// Package load is the same load for every kind of queue server: publishers and
// workers, each a goroutine with a connection of its own, and what they saw. It owns
// the clients (NATS, Redis streams, RabbitMQ quorum queues) and the clock; it knows no
// server process. cmd/bench runs it as a process of its own, one for each measurement.
package load
