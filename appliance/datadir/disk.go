// SPDX-License-Identifier: Apache-2.0

package datadir

import "path/filepath"

// DiskReport is the file below a data directory where the latest measurement of its
// disk is kept.
func DiskReport(dir string) string { return filepath.Join(dir, "disk.json") }

// VerifyReport is the file below a data directory that tells of the latest time when
// everything that is stored was read.
func VerifyReport(dir string) string { return filepath.Join(dir, "verify.json") }
