// SPDX-License-Identifier: Apache-2.0

// Package datadir owns the data directory: its layout, the lock that keeps a
// second node out, the stamp with the format and the node's name, the checks
// that refuse a place where messages would not last, and durable file writing.
//
// It does not own what the files mean: the identity belongs to bootstrap/identity,
// the message store to nats-server. The appliance opens the directory before
// anything else and closes it last; commands use VolumeOf and SocketPath only.
package datadir
