// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/disk"
)

// MeasureDisk measures the disk that a directory is on, and keeps the result there
// when it is a data directory. No node has to run.
func MeasureDisk(ctx context.Context, p disk.Plan, keep bool) (disk.Measurement, error) {
	named := p.Dir
	if keep {
		p.Dir = datadir.OnStore(p.Dir) // the store may be a volume of its own
	}
	vol, err := datadir.VolumeOf(p.Dir)
	if err != nil {
		return disk.Measurement{}, err
	}
	// What publishers leave free is for others to leave free, too.
	if uint64(p.Space)+vol.Total/20 > vol.Free {
		return disk.Measurement{}, diag.Fail(diag.CodeDiskFull,
			fmt.Errorf("measure the disk of %s: %s are free, a twentieth of the volume is left alone, and %s would be written",
				p.Dir, humanize.IBytes(vol.Free), humanize.IBytes(uint64(p.Space))), "use less with --space, or make room")
	}
	m, err := disk.Measure(ctx, p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return m, diag.Fail(diag.CodeAccess, err, "name a directory that this user may write to with --dir, or run it as the user that Holdfast runs as")
	}
	if err != nil {
		return m, err
	}
	m.FileSystem = vol.FSType
	if vol.FSType == "tmpfs" || vol.FSType == "ramfs" {
		m.Trust = disk.Trust{Opinion: disk.Broken, Why: "it is no disk: a " + vol.FSType + " is memory"}
	}
	if keep {
		err = keepMeasurement(named, m)
	}
	return m, err
}

func keepMeasurement(dir string, m disk.Measurement) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("keep the measurement: %w", err)
	}
	path := datadir.DiskReport(dir)
	if err := datadir.WriteFile(path, append(text, '\n'), 0o640); err != nil {
		return err
	}
	// Root measures a disk, too; the node is to be able to read it and to replace it.
	return datadir.OwnLike(path, dir)
}

// Measured returns the measurement of a data directory's disk that was kept; nil when
// there is none that can be read.
func Measured(dir string) *disk.Measurement { return disk.Kept(datadir.DiskReport(dir)) }

// tellDisk logs what the disk can do, as measured now, and whether it was found not to
// be believed.
func (a *Appliance) tellDisk() {
	if a.flush > 0 && a.opts.Config.Storage.Durability == "strict" {
		one, many := disk.Durable(a.flush)
		a.log.Info("disk measured", "flush", shortDuration(a.flush), "messages_per_second_alone", int(one), "messages_per_second_64_publishers", int(many))
	}
	if m := Measured(a.dir.Path()); m != nil && m.Trust.Opinion != disk.Plausible && m.Trust.Opinion != disk.Unknown {
		a.log.Warn("the disk may lose what it was told to flush", "opinion", string(m.Trust.Opinion), keyWhat, m.Trust.Why,
			keyFix, "measure again with `holdfast bench disk` after a change; it says what to do")
	}
}
