// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"fmt"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/disk"
)

// advice is a setting that only a person changes: in /etc/fstab.
type advice struct {
	name, title string
	look        func(place) []Setting
}

func advices() []advice {
	return []advice{
		{"barrier", "whether an fsync reaches the disk", barrier},
		{"journal", "how ext4 keeps data in order", journal},
	}
}

// barrier is about the way from an fsync to the disk. tune does not touch it, so that an
// undo never takes it away again.
func barrier(p place) []Setting {
	s := Setting{
		Name: "barrier", Target: p.mount.Point, State: Fine, Now: "on", Wanted: "on",
		Why:   "without it an fsync does not reach the disk, and a power cut loses acknowledged messages",
		Known: "protects: `holdfast bench disk` shows what is not flushed",
	}
	if p.mount.Has("nobarrier", "barrier=0") {
		on := "barrier=1"
		if p.mount.FSType == "btrfs" {
			on = "barrier"
		}
		s.State, s.Now = ByHand, "off"
		s.Command = fmt.Sprintf("mount -o remount,%s %s", on, quote(p.mount.Point))
		s.Note = "and take nobarrier or barrier=0 out of /etc/fstab"
	}
	all := []Setting{s}
	for _, d := range p.below.Disks {
		if d.OwnCache == disk.CacheBack && d.WriteCache == disk.CacheThrough {
			c := s
			c.Target, c.State, c.Now, c.Note = d.Name, ByHand, "off: the kernel was told that the disk has no cache", ""
			c.Command = "echo 'write back' > " + p.in.shown(d.Setting("write_cache"))
			all = append(all, c)
		}
	}
	return all
}

func journal(p place) []Setting {
	if p.mount.FSType != "ext4" {
		return nil
	}
	s := Setting{
		Name: "journal", Target: p.mount.Point, State: Fine, Now: "data=ordered", Wanted: "data=ordered",
		Why:   "with data=writeback files may hold old blocks after a power cut, where nothing was synced",
		Known: "protects what is not synced, such as positions of consumers; what was synced is safe",
	}
	for _, o := range p.mount.Options {
		if strings.HasPrefix(o, "data=") {
			s.Now = o
		}
	}
	switch s.Now {
	case "data=writeback":
		s.State, s.Command = ByHand, "# take data=writeback out of /etc/fstab and restart the machine: it can't be changed while it is mounted"
	case "data=journal": // safer, and slower
		s.Wanted = s.Now
	}
	return []Setting{s}
}

func quote(s string) string {
	if !strings.ContainsAny(s, " \t'\"$`\\&|;<>()*?[]#~!{}") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
