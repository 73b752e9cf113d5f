// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// flushField is the number of flush requests in a device's stat file, counted from 0
// (Documentation/block/stat.rst, since Linux 5.5).
const flushField = 15

func (s System) at(path string) string {
	if s.Root == "" {
		return path
	}
	return filepath.Join(s.Root, path)
}

// MountOf is the mount that a path is on, or would be on.
func (s System) MountOf(path string) (Mount, error) {
	path, err := existing(path)
	if err != nil {
		return Mount{}, err
	}
	above := func(i *mountinfo.Info) (skip, stop bool) {
		at := strings.TrimSuffix(i.Mountpoint, "/")
		return path != i.Mountpoint && !strings.HasPrefix(path, at+"/"), false
	}
	text, err := os.ReadFile(s.at("/proc/self/mountinfo"))
	if err != nil {
		return Mount{}, fmt.Errorf("find the mount of %s: %w", path, err)
	}
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), above)
	if err == nil && len(all) == 0 {
		err = errors.New("it is on none")
	}
	if err != nil {
		return Mount{}, fmt.Errorf("find the mount of %s in /proc/self/mountinfo: %w", path, err)
	}
	best := all[0]
	for _, i := range all {
		if len(i.Mountpoint) >= len(best.Mountpoint) { // of several at one place the last hides the others
			best = i
		}
	}
	m := Mount{Point: best.Mountpoint, FSType: best.FSType, Source: best.Source, major: best.Major, minor: best.Minor}
	for o := range strings.SplitSeq(best.Options+","+best.VFSOptions, ",") {
		if o != "" && !slices.Contains(m.Options, o) {
			m.Options = append(m.Options, o)
		}
	}
	return m, nil
}

// existing is the nearest directory of a path that is there, without links.
func existing(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return real, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return "", err
		}
		path = filepath.Dir(path)
	}
}

// Below finds the devices below a mount. File systems in memory, of a network and of
// containers (overlay) have none.
func (s System) Below(m Mount) Stack {
	start := fmt.Sprintf("/sys/dev/block/%d:%d", m.major, m.minor)
	if m.major == 0 && strings.HasPrefix(m.Source, "/dev/") { // btrfs has numbers of its own
		name := filepath.Base(m.Source)
		if real, err := filepath.EvalSymlinks(m.Source); err == nil {
			name = filepath.Base(real)
		}
		start = "/sys/class/block/" + name
	}
	dir, err := filepath.EvalSymlinks(s.at(start))
	if err != nil {
		return Stack{}
	}
	dir = whole(dir)
	return Stack{Top: deviceAt(dir), Disks: disksBelow(dir)}
}

// whole is the directory of the disk of a partition, which has the queue.
func whole(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		return filepath.Dir(dir)
	}
	return dir
}

func disksBelow(dir string) []Device {
	dir = whole(dir)
	slaves, err := filepath.Glob(filepath.Join(dir, "slaves", "*"))
	if err != nil || len(slaves) == 0 {
		return []Device{deviceAt(dir)}
	}
	var all []Device
	for _, link := range slaves {
		real, err := filepath.EvalSymlinks(link)
		if err != nil {
			continue
		}
		for _, d := range disksBelow(real) {
			// Two partitions of one disk are one disk.
			if !slices.ContainsFunc(all, func(o Device) bool { return o.Dir == d.Dir }) {
				all = append(all, d)
			}
		}
	}
	return all
}

func deviceAt(dir string) Device {
	d := Device{
		Name:       filepath.Base(dir),
		Model:      read(dir, "device/model"),
		WriteCache: read(dir, "queue/write_cache"),
		Scheduler:  Chosen(read(dir, "queue/scheduler")),
		Rotating:   read(dir, "queue/rotational") == "1",
		Dir:        dir,
	}
	if driver, err := filepath.EvalSymlinks(filepath.Join(dir, "device/driver")); err == nil {
		d.Driver = filepath.Base(driver)
	}
	if own, err := filepath.Glob(filepath.Join(dir, "device/scsi_disk/*/cache_type")); err == nil && len(own) > 0 {
		d.OwnCache = read(own[0], "")
	}
	for _, prefix := range []string{"vd", "xvd", "loop", "zram", "nbd", "rbd"} {
		d.Virtual = d.Virtual || strings.HasPrefix(d.Name, prefix)
	}
	for _, maker := range []string{"QEMU", "VBOX", "VMware", "Virtual", "Amazon Elastic Block", "PersistentDisk"} {
		d.Virtual = d.Virtual || strings.Contains(d.Model, maker)
	}
	return d
}

// flushes counts what the kernel has sent to the device; -1 where it does not say.
func (d Device) flushes() int64 {
	fields := strings.Fields(read(d.Dir, "stat"))
	if d.Dir == "" || len(fields) <= flushField {
		return -1
	}
	n, err := strconv.ParseInt(fields[flushField], 10, 64)
	if err != nil {
		return -1
	}
	return n
}
