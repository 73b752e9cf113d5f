// SPDX-License-Identifier: Apache-2.0

// Package identity owns who is who: the operator, the system account, the
// accounts and their users, with the keys and tokens that prove it, all in one
// file in the data directory. It does no other I/O and has no clock of its own,
// and it never removes a key: stored messages belong to the keys in this file.
// It does not talk to a server: package appliance hands what Trust returns to
// the engine and to a running server, and logins to whoever connects.
package identity
