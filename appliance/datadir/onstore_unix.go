// SPDX-License-Identifier: Apache-2.0

//go:build unix

package datadir

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OnStore returns a directory on the volume of the message store for files of our own:
// the data directory, or, when the store is a volume of its own, the directory of an
// account in it. Right in the store nats-server takes each name for an account.
func OnStore(dir string) string {
	var own, store unix.Stat_t
	path := filepath.Join(dir, storeName)
	if unix.Stat(dir, &own) != nil || unix.Stat(path, &store) != nil || own.Dev == store.Dev {
		return dir
	}
	accounts, err := storedAccounts(dir)
	if err != nil || len(accounts) == 0 {
		return dir // nothing is stored yet
	}
	return filepath.Join(path, accounts[0])
}
