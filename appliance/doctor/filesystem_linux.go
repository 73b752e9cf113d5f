// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

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
		r.fail(m.dataDir()+": "+h, "messages that were acknowledged can be lost; the node refuses to start there without --allow-unsafe-storage", move)
	}
	for _, c := range cautions {
		r.warn(m.dataDir()+": "+c, "messages that were acknowledged can be lost", move)
	}
	at, err := m.system().MountOf(dir)
	switch {
	case denied(err):
		r.blind(m, "can't look into "+dir)
		return r
	case err != nil:
		r.find(Unknown, err.Error(), "what can't be seen can't be judged", m.again())
		return r
	}
	r.measured("%s is on %s (%s), %s", dir, at.Point, at.FSType, strings.Join(at.Options, ","))
	judgeOptions(m, &r, at)
	return r
}

// judgeOptions finds mount options under which an fsync does not hold.
func judgeOptions(m *machine, r *report, at disk.Mount) {
	mount := fmt.Sprintf("%s is mounted with ", at.Point)
	persist := comment("and take the option out of /etc/fstab, if it is there: grep -n %s /etc/fstab", quote(at.Point))
	for _, o := range at.Options {
		switch o {
		case "nobarrier", "barrier=0":
			on := "barrier=1"
			if at.FSType == "btrfs" {
				on = "barrier"
			}
			r.fail(mount+o, "fsync does not reach the disk: a power cut loses acknowledged messages",
				lines(m.asRoot(fmt.Sprintf("mount -o remount,%s %s", on, quote(at.Point))), persist))
		case "data=writeback":
			r.warn(mount+o, "after a power cut files may hold old blocks where nothing was synced; messages that were synced are safe",
				lines(comment("this can't be changed while it is mounted"), persist))
		}
	}
	if at.Has("ro") {
		r.fail(mount+"ro", "nothing can be stored",
			lines(m.asRoot("mount -o remount,rw "+quote(at.Point)), comment("if it was not mounted so on purpose, see why: dmesg | grep -i -e error -e remount")))
	}
}

// lookAtWriteCache says what is known of the way from an fsync to the disk.
func lookAtWriteCache(ctx context.Context, m *machine) report {
	var r report
	at, err := m.system().MountOf(m.storeDir())
	if denied(err) {
		r.blind(m, "can't look into "+m.storeDir())
		return r
	} else if err != nil {
		return skip("%v", err)
	}
	disks := m.system().Below(at).Disks
	if len(disks) == 0 {
		return skip("%s (%s) has no block device that could be seen from here", at.Point, at.FSType)
	}
	var text []string
	for _, d := range disks {
		text = append(text, cacheText(d))
		if d.OwnCache == disk.CacheBack && d.WriteCache == disk.CacheThrough {
			file := d.Setting("write_cache")
			r.fail(fmt.Sprintf("%s has a write cache of its own (write back), and the kernel was told that it has none (%s: write through)", d.Name, file),
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

// cacheText says what is known of a device's write cache.
func cacheText(d disk.Device) string {
	kind := ""
	switch {
	case strings.HasPrefix(d.Driver, "virtio"), strings.HasPrefix(d.Name, "xvd"), d.Driver == "hv_storvsc":
		kind = ", a virtual disk: whether its host hands flushes on can't be seen from here"
	case strings.HasPrefix(d.Name, "mmcblk"):
		kind = ", a memory card or eMMC: some ignore flushes, which can't be seen from here"
	case strings.HasPrefix(d.Name, "loop"):
		kind = ", a file on another file system"
	}
	switch d.WriteCache {
	case disk.CacheBack:
		return d.Name + ": write back, flushes are sent" + kind
	case disk.CacheThrough:
		return d.Name + ": write through, nothing to flush" + kind
	}
	return d.Name + ": unknown cache" + kind
}
