// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package datadir

// processName knows no names here, and takes the lock file's word that the
// process lives.
func processName(int) (name string, alive bool) { return "", true }
