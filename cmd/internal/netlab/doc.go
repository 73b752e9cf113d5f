// SPDX-License-Identifier: Apache-2.0

// Package netlab gives nodes networks of their own on one machine: each host is a network
// namespace on a bridge in the namespace of this process, where its clients are. It owns
// the namespaces and what cuts them off; what runs in them its callers know. Linux and
// root only: Missing says what is not there. All of it is gone with the process, however
// that ends.
package netlab
