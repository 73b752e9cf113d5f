// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// flushField is the number of flush requests in a device's stat file, counted from 0
// (Documentation/block/stat.rst, since Linux 5.5).
const flushField = 15

// deviceOf finds the device that a directory is on. File systems with devices of their
// own numbers (btrfs, overlay, tmpfs) have none that can be asked.
func deviceOf(dir string) Device {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return Device{}
	}
	return deviceAt(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
}

func deviceAt(link string) Device {
	sys, err := filepath.EvalSymlinks(link)
	if err != nil {
		return Device{}
	}
	if _, err := os.Stat(filepath.Join(sys, "queue")); err != nil {
		sys = filepath.Dir(sys) // a partition; the queue is the whole disk's
	}
	d := Device{
		Name:       filepath.Base(sys),
		Model:      read(sys, "device/model"),
		WriteCache: read(sys, "queue/write_cache"),
		Scheduler:  chosen(read(sys, "queue/scheduler")),
		Rotating:   read(sys, "queue/rotational") == "1",
		sys:        sys,
	}
	for _, prefix := range []string{"vd", "xvd", "loop", "zram", "nbd", "rbd"} {
		d.Virtual = d.Virtual || strings.HasPrefix(d.Name, prefix)
	}
	for _, maker := range []string{"QEMU", "VBOX", "VMware", "Virtual", "Amazon Elastic Block", "PersistentDisk"} {
		d.Virtual = d.Virtual || strings.Contains(d.Model, maker)
	}
	return d
}

func read(sys, name string) string {
	text, err := os.ReadFile(filepath.Join(sys, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// chosen is the scheduler in brackets.
func chosen(list string) string {
	if _, after, ok := strings.Cut(list, "["); ok {
		name, _, _ := strings.Cut(after, "]")
		return name
	}
	return list
}

// flushes counts what the kernel has sent to the device; -1 where it does not say.
func (d Device) flushes() int64 {
	fields := strings.Fields(read(d.sys, "stat"))
	if d.sys == "" || len(fields) <= flushField {
		return -1
	}
	n, err := strconv.ParseInt(fields[flushField], 10, 64)
	if err != nil {
		return -1
	}
	return n
}
