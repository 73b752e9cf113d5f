// SPDX-License-Identifier: Apache-2.0

// Package join hands the identity of a cluster from the node that has it to one that
// has none yet, over TLS, to whoever knows the cluster's secret. It knows nothing of
// what it hands over, and keeps nothing.
//
// Neither side has a certificate that the other could check: that is what is handed
// over. So both prove that they know the secret, bound to this one TLS connection by
// its exported keying material (RFC 9266), before anything else is said. Somebody in
// between has another connection on each side, and can pass no proof on.
package join
