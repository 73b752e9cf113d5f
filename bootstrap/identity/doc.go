// SPDX-License-Identifier: Apache-2.0

// Package identity owns who is who: the operator, the system account, the
// accounts and their users, with the keys and tokens that prove it and what each
// user may do, all in one file in the data directory. It does no other I/O and
// has no clock of its own. It never removes the key of an account, because stored
// messages belong to it; users come and go, and what was revoked stays revoked.
// It does not talk to a server: package appliance hands what Trust returns to
// the engine and to a running server, and logins to whoever connects.
package identity
