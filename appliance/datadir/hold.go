// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"fmt"
	"path/filepath"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Hold locks a data directory that no node runs on, for somebody who looks at what is in
// it, and changes nothing but the note of who has the lock. What Open would refuse is
// refused. release gives it back.
func Hold(path string) (release func() error, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", path, err)
	}
	s, err := Look(path, "")
	if err != nil {
		return nil, err
	}
	if s.Format == 0 {
		return nil, diag.Fail(diag.CodeAccess, fmt.Errorf("%s is no data directory: no node has run on it", path), "name another one with --data-dir")
	}
	if err := checkAccess(path); err != nil {
		return nil, err
	}
	l, err := acquire(path)
	if err != nil {
		return nil, err
	}
	return l.release, nil
}

// Store returns the store below a data directory, and the resolver's directory.
func Store(dir string) (store, resolver string) { return dir, filepath.Join(dir, resolverName) }
