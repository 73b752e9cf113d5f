// SPDX-License-Identifier: Apache-2.0

//go:build unix

package datadir

import (
	"os"

	"github.com/gofrs/flock"
)

// lockDirectory locks the directory itself. It returns no lock where the file
// system cannot lock directories (NFS), and true when another process holds it.
func lockDirectory(dir string) (l *flock.Flock, held bool) {
	l = flock.New(dir, flock.SetFlag(os.O_RDONLY))
	got, err := l.TryLock()
	if err != nil {
		return nil, false
	}
	if !got {
		return nil, true
	}
	return l, false
}
