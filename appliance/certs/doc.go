// SPDX-License-Identifier: Apache-2.0

// Package certs owns the certificates of the listeners: the node's own CA, the
// server certificate that it issues and renews, or the user's own files, which
// it watches. It does not own addresses, engine options or logging. The appliance
// opens a Store before the engine and runs it as long as the node; DESIGN.md says
// which rule holds when the clock is wrong, a file is lost, or a write is cut off.
package certs
