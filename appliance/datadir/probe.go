// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Probe writes a few bytes where the streams are and makes them durable, as a message
// would be, and returns how long that took. A volume that is merely full is no error,
// and takes no time.
func (d *Dir) Probe() (took time.Duration, err error) {
	dir := OnStore(d.path)
	f, err := os.OpenFile(filepath.Join(dir, "probe"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		begun := time.Now()
		_, err = f.WriteAt([]byte("holdfast"), 0)
		if err == nil {
			err = f.Sync()
		}
		took = time.Since(begun)
		err = errors.Join(err, f.Close())
	}
	switch {
	case err == nil:
		return took, nil
	case isDiskFull(err):
		return 0, nil
	}
	return 0, explain("write to", dir, err)
}

// BallastFile is where room is kept that is given up when the volume is full.
func (d *Dir) BallastFile() string { return d.onStore("ballast") }
