// SPDX-License-Identifier: Apache-2.0

// Package engine runs the embedded nats-server: it renders its configuration,
// starts it, reports how recovery goes, opens the client port, answers for its
// health, counts what clients are refused and stops it. It is the only importer
// of nats-server.
//
// It does not know Holdfast's file, its data directory or its keys: it takes
// plain Settings. appliance calls it; nothing in here ends the process, whatever
// nats-server calls fatal.
package engine
