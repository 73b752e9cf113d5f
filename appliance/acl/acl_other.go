// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package acl

import "os"

// Keepers are those who keep their rights where others are shut out.
func Keepers() []string { return []string{Account} }

// Create makes a new file for this user alone.
func Create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// Readers knows nobody: modes say it here.
func Readers(string) ([]string, error) { return nil, nil }
