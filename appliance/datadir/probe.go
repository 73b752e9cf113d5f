// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"os"
	"path/filepath"
)

// Probe writes a few bytes where the streams are and makes them durable, as a message
// would be. A volume that is merely full is no error.
func (d *Dir) Probe() error {
	dir := OnStore(d.path)
	f, err := os.OpenFile(filepath.Join(dir, "probe"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteAt([]byte("holdfast"), 0)
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil || isDiskFull(err) {
		return nil
	}
	return explain("write to", dir, err)
}

// BallastFile is where room is kept that is given up when the volume is full.
func (d *Dir) BallastFile() string { return filepath.Join(OnStore(d.path), "ballast") }
