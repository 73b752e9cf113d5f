// SPDX-License-Identifier: Apache-2.0

// Package config turns the configuration file, its overlays, the environment and flags into
// one typed Config, and says everything that is wrong with them at once, with
// file, line and column.
//
// The struct fields of Config and their tags are the key table: names, help,
// defaults, units and which keys need a restart stand there and nowhere else;
// the schema, the starter file and the reference page are made from them.
//
// It does not know NATS packages, opens no socket and writes nothing. The
// appliance and the commands call it.
package config
