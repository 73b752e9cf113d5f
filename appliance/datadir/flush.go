// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	flushes   = 25
	flushSize = 4 << 10 // bytes
)

// FlushTime returns how long the volume takes to make a small append durable, as the
// median of some. It takes a few milliseconds on a fast disk, and stops early on a slow
// one.
func (d *Dir) FlushTime() (_ time.Duration, err error) {
	dir := OnStore(d.path)
	f, err := os.OpenFile(filepath.Join(dir, "flush.tmp"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, explain("measure flushes in", dir, err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	const longEnough = time.Second
	var took []time.Duration
	for begun := time.Now(); len(took) < flushes && (len(took) < 3 || time.Since(begun) < longEnough); {
		at := time.Now()
		if _, err = f.Write(make([]byte, flushSize)); err == nil {
			err = f.Sync()
		}
		if err != nil {
			return 0, fmt.Errorf("measure flushes: %w", explain("write", f.Name(), err))
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
