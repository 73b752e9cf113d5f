// SPDX-License-Identifier: Apache-2.0

package datadir

// OnStore returns a directory on the volume of the message store for files of our own.
func OnStore(dir string) string { return dir }
