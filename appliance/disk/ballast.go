// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Ballast is a file that only takes room. When others have filled the volume it is
// given up, so that consumers can still record what was acknowledged.
type Ballast struct {
	Path string
	Size uint64 // bytes
}

// BallastFor is the size of a ballast for what must stay free.
func BallastFor(minFree uint64) uint64 { return clamp(minFree/4, 1<<20, 64<<20) }

// Tend makes or gives up the ballast, by what the volume has left. owed is what the
// ballast lacks, in bytes: that much of what is free is nobody's to publish into.
func (b Ballast) Tend(r Room, minFree uint64) (owed uint64, gone bool, err error) {
	have, err := b.have()
	if err != nil {
		return b.Size, false, err
	}
	switch {
	case have && (r.Free < b.Size/2 || r.InodesTotal > 0 && r.Inodes < fewInodes):
		if err := os.Remove(b.Path); err != nil {
			return 0, false, fmt.Errorf("give up the ballast: %w", err)
		}
		return b.Size, true, nil
	case have:
		return 0, false, nil
	case r.Free < enough(minFree)+b.Size:
		return b.Size, false, nil
	}
	if err := b.make(); err != nil {
		return b.Size, false, err
	}
	return 0, false, nil
}

// fewInodes is when the ballast's own one is needed.
const fewInodes = 10

// have reports whether the whole file is there; what a crash left of one is removed.
func (b Ballast) have() (bool, error) {
	info, err := os.Stat(b.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the ballast: %w", err)
	case uint64(info.Size()) == b.Size:
		return true, nil
	}
	if err := os.Remove(b.Path); err != nil {
		return false, fmt.Errorf("remove a ballast of another size: %w", err)
	}
	return false, nil
}

func (b Ballast) make() error {
	f, err := os.OpenFile(b.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the ballast: %w", err)
	}
	err = errors.Join(reserve(f, int64(b.Size)), f.Close())
	if err != nil {
		return fmt.Errorf("make the ballast: %w", errors.Join(err, os.Remove(b.Path)))
	}
	return nil
}

// fill takes the room by writing.
func fill(f *os.File, size int64) error {
	block := make([]byte, 1<<20)
	for size > 0 {
		n, err := f.Write(block[:min(size, int64(len(block)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}
