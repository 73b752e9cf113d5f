// SPDX-License-Identifier: Apache-2.0

// Package loopdisk makes file systems of their own in image files, for the programs
// that measure and torture nodes: a known file system, empty at the start, that can be
// cut off its disk as a power cut does. It owns images, mounts and the power switch;
// what happens on the disk its callers know. Linux and root only: Missing says what
// is not there.
package loopdisk
