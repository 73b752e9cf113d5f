// SPDX-License-Identifier: Apache-2.0

// Package join hands the identity of a cluster from the node that has it to one that
// has none yet, over TLS, to whoever knows the cluster's secret. It knows nothing of
// what it hands over. It keeps nothing, but for a Ledger of the tokens that were made.
//
// Neither side has a certificate that the other could check: that is what is handed
// over. So both prove that they know the secret, bound to this one TLS connection by
// its exported keying material (RFC 9266), before anything else is said. Somebody in
// between has another connection on each side, and can pass no proof on.
//
// A machine that does not know the secret is given it for a Token. That has the
// fingerprint of the cluster's CA, so the node shows a certificate; the machine proves
// that it knows the token's own secret, bound to the connection in the same way.
package join
