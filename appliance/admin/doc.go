// SPDX-License-Identifier: Apache-2.0

// Package admin is the way into a running node: the HTTP API on the admin
// socket, its client, and the handler of the TCP listener that only reads.
//
// Everything that changes something or shows a secret is on the socket, whose
// file permissions are its access control. The package owns the shape of the
// answers (Status, Login); the appliance fills them.
package admin
