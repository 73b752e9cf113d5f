// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/disk"
)

// lookAtFileSystem judges where messages are kept.
func lookAtFileSystem(_ context.Context, m *machine) report {
	var r report
	dir := m.storeDir()
	if dir == "" {
		return skip("the configuration names no data directory")
	}
	hazards, cautions, err := datadir.Place(m.dataDir())
	if err != nil {
		r.blind(m, err.Error())
		return r
	}
	move := comment("stop the node, move %s to a directory on a local disk, and set node.data_dir to it", m.dataDir())
	for _, h := range hazards {
		if m.in.File == "" && strings.HasPrefix(h, "it is below") {
			continue // the starter is for trying things out
		}
		r.fail(m.dataDir()+": "+h, "messages that were acknowledged can be lost; the node refuses to start there", move)
	}
	for _, c := range cautions {
		r.warn(m.dataDir()+": "+c, "messages that were acknowledged can be lost", move)
	}
	at, err := m.mountOf(dir)
	switch {
	case denied(err):
		r.blind(m, "can't look into "+dir)
		return r
	case err != nil:
		r.find(Unknown, err.Error(), "what can't be seen can't be judged", m.again())
		return r
	}
	r.measured("%s is on %s (%s), %s", dir, at.Mountpoint, at.FSType, strings.Join(optionsOf(at), ","))
	judgeOptions(m, &r, at)
	return r
}

// optionsOf are the options of the mount and of its file system.
func optionsOf(at *mountinfo.Info) []string {
	var all []string
	for _, o := range strings.Split(at.Options+","+at.VFSOptions, ",") {
		if o != "" && !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}

// judgeOptions finds mount options under which an fsync does not hold.
func judgeOptions(m *machine, r *report, at *mountinfo.Info) {
	mount := fmt.Sprintf("%s is mounted with ", at.Mountpoint)
	persist := comment("and take the option out of /etc/fstab, if it is there: grep -n %s /etc/fstab", quote(at.Mountpoint))
	for _, o := range optionsOf(at) {
		switch o {
		case "nobarrier", "barrier=0":
			on := "barrier=1"
			if at.FSType == "btrfs" {
				on = "barrier"
			}
			r.fail(mount+o, "fsync does not reach the disk: a power cut loses acknowledged messages",
				lines(m.asRoot(fmt.Sprintf("mount -o remount,%s %s", on, quote(at.Mountpoint))), persist))
		case "data=writeback":
			r.warn(mount+o, "after a power cut files may hold old blocks where nothing was synced; messages that were synced are safe",
				lines(comment("this can't be changed while it is mounted"), persist))
		}
	}
	if slices.Contains(optionsOf(at), "ro") {
		r.fail(mount+"ro", "nothing can be stored",
			lines(m.asRoot("mount -o remount,rw "+quote(at.Mountpoint)), comment("if it was not mounted so on purpose, see why: dmesg | grep -i -e error -e remount")))
	}
}

// lookAtWriteCache says what is known of the way from an fsync to the disk.
func lookAtWriteCache(ctx context.Context, m *machine) report {
	var r report
	at, err := m.mountOf(m.storeDir())
	if denied(err) {
		r.blind(m, "can't look into "+m.storeDir())
		return r
	} else if err != nil {
		return skip("%v", err)
	}
	disks := m.disksOf(at)
	if len(disks) == 0 {
		return skip("%s (%s) has no block device that could be seen from here", at.Mountpoint, at.FSType)
	}
	var text []string
	for _, d := range disks {
		text = append(text, d.text())
		if d.own == "write back" && d.cache == "write through" {
			file := filepath.Join(d.dir, "queue/write_cache")
			r.fail(fmt.Sprintf("%s has a write cache of its own (write back), and the kernel was told that it has none (%s: write through)", d.name, file),
				"no flush is sent: a power cut loses acknowledged messages", m.asRoot(fmt.Sprintf("echo 'write back' > %s", quote(file))))
		}
	}
	if node, err := m.ask(ctx); err == nil && node.Flush > 0 {
		text = append(text, fmt.Sprintf("a flush took %v at the node's start", node.Flush.Round(10*time.Microsecond)))
	}
	if kept := disk.Kept(datadir.DiskReport(m.dataDir())); kept != nil {
		took := time.Duration(kept.Flush.P50 * float64(time.Second)).Round(time.Microsecond)
		text = append(text, fmt.Sprintf("measured %s: %v a flush, %v at worst, %s", kept.At.Format(time.DateOnly), took,
			time.Duration(kept.Flush.Max*float64(time.Second)).Round(time.Microsecond), kept.Trust.Opinion))
		again := lines(comment("when the disk or its mount was changed since, measure again:"), m.asRoot("holdfast bench disk --data-dir "+quote(m.dataDir())))
		switch kept.Trust.Opinion {
		case disk.Broken:
			r.fail(kept.Trust.Why, "a power cut loses acknowledged messages", again)
		case disk.Suspicious:
			r.warn(kept.Trust.Why, "a power cut may lose acknowledged messages", again)
		}
	}
	r.measured("%s", strings.Join(text, "; "))
	return r
}

// device is a block device as /sys shows it.
type device struct {
	name, dir string
	cache     string // what the kernel goes by: write back or write through
	own       string // what a SCSI or SATA disk says of itself
	driver    string
}

func (d device) text() string {
	kind := ""
	switch {
	case strings.HasPrefix(d.driver, "virtio"), strings.HasPrefix(d.name, "xvd"), d.driver == "hv_storvsc":
		kind = ", a virtual disk: whether its host hands flushes on can't be seen from here"
	case strings.HasPrefix(d.name, "mmcblk"):
		kind = ", a memory card or eMMC: some ignore flushes, which can't be seen from here"
	case strings.HasPrefix(d.name, "loop"):
		kind = ", a file on another file system"
	}
	switch d.cache {
	case "write back":
		return d.name + ": write back, flushes are sent" + kind
	case "write through":
		return d.name + ": write through, nothing to flush" + kind
	}
	return d.name + ": unknown cache" + kind
}

// disksOf finds the whole disks below a mount, through partitions and device mapper.
func (m *machine) disksOf(at *mountinfo.Info) []device {
	start := fmt.Sprintf("/sys/dev/block/%d:%d", at.Major, at.Minor)
	if at.Major == 0 && strings.HasPrefix(at.Source, "/dev/") { // btrfs
		name := filepath.Base(at.Source)
		if real, err := filepath.EvalSymlinks(at.Source); err == nil {
			name = filepath.Base(real)
		}
		start = "/sys/class/block/" + name
	}
	dir, err := filepath.EvalSymlinks(m.at(start))
	if err != nil {
		return nil
	}
	return disksBelow(dir)
}

func disksBelow(dir string) []device {
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
	}
	slaves, err := filepath.Glob(filepath.Join(dir, "slaves", "*"))
	if err == nil && len(slaves) > 0 {
		var all []device
		for _, s := range slaves {
			if real, err := filepath.EvalSymlinks(s); err == nil {
				all = append(all, disksBelow(real)...)
			}
		}
		return all
	}
	d := device{name: filepath.Base(dir), dir: dir, cache: text(dir, "queue/write_cache")}
	if driver, err := filepath.EvalSymlinks(filepath.Join(dir, "device/driver")); err == nil {
		d.driver = filepath.Base(driver)
	}
	if own, err := filepath.Glob(filepath.Join(dir, "device/scsi_disk/*/cache_type")); err == nil && len(own) > 0 {
		d.own = text(own[0], "")
	}
	return []device{d}
}

func text(dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
