// SPDX-License-Identifier: Apache-2.0

// Command bench measures Holdfast beside a stock nats-server of the version
// that it embeds, by turns and in one run, and writes the table that the
// documentation shows. `make bench` calls it.
//
// `bench queue` puts messages through both, and through Redis and RabbitMQ.
//
// `bench cluster` does so with three nodes of each, and kills and cuts off one of them.
//
// `bench tune` compares settings of the kernel and of streams by turns, those that
// `holdfast tune` knows and those that it leaves alone.
//
// registry.go lists the measurements; a new one is an entry there. Both sides
// are seen from outside: processes, ports, /proc.
package main
