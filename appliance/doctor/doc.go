// SPDX-License-Identifier: Apache-2.0

// Package doctor looks at a machine and the node on it, and says what is wrong,
// why that matters, and the command that fixes it.
//
// It owns the list of checks and only reads: no file is written, no port opened,
// no lock taken, so that it can be run beside a node. It does not read the
// configuration and does not know how to ask the node; the command hands it both.
package doctor
