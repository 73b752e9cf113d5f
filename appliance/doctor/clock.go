// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/shirou/gopsutil/v4/host"

	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

const (
	// settling is the time after a boot in which a clock may not be synchronised yet.
	settling = 15 * time.Minute
	// ahead is by how much files may be newer than the clock without a jump.
	ahead = 5 * time.Minute
)

// lookAtClock compares the clock with what is known of the time.
func lookAtClock(ctx context.Context, m *machine) report {
	var r report
	now := m.now()
	setClock := lines(m.asRoot(howto.Here().KeepClock()), comment("or by hand: %s", howto.Here().SetClock()))
	if built := builtAt(); !certs.ClockIsSet(now) || now.Before(built) {
		r.fail(fmt.Sprintf("the clock shows %s, before this program was made", now.UTC().Format(time.DateTime)),
			"messages get wrong times, max_age and certificates can't be judged; the node starts and heals itself when the time comes", setClock)
		return r
	}
	newest, when := m.newestFile()
	if when.After(now.Add(ahead)) {
		r.warn(fmt.Sprintf("%s was written at %s, and the clock shows %s", newest, when.UTC().Format(time.DateTime), now.UTC().Format(time.DateTime)),
			"the clock went back: new messages are older than stored ones, and max_age keeps those longer", setClock)
	}
	synced, err := m.synced()
	text := "synchronised"
	up, upErr := host.UptimeWithContext(ctx)
	switch kind := m.container(); {
	case kind != "":
		text = "the clock of the host of this container (" + kind + ")"
	case err != nil:
		text = "whether it is synchronised can't be seen: " + err.Error()
	case !synced && upErr == nil && time.Duration(up)*time.Second < settling:
		text = "not synchronised yet, " + (time.Duration(up) * time.Second).String() + " after boot"
	case !synced:
		r.warn("the kernel says that nothing keeps the clock right (adjtimex: STA_UNSYNC)",
			"a clock that drifts and is set by hand later jumps: messages expire early or late, and certificates with them",
			lines(m.asRoot("timedatectl set-ntp true"), comment("needs systemd-timesyncd or chrony: apt-get install systemd-timesyncd")))
	}
	r.measured("%s UTC, %s", now.UTC().Format(time.DateTime), text)
	return r
}

// builtAt is when the program was made, as far as it knows.
func builtAt() time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Time{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			t, err := time.Parse(time.RFC3339, s.Value)
			if err == nil {
				return t
			}
		}
	}
	return time.Time{}
}

// newestFile is the file that the node wrote last, as its time says, of those that
// are written at every start.
func (m *machine) newestFile() (string, time.Time) {
	dir := m.dataDir()
	var name string
	var newest time.Time
	for _, path := range []string{datadir.LockPath(dir), filepath.Join(dir, "VERSION"), m.storeDir(), dir} {
		info, err := os.Stat(path)
		if err == nil && info.ModTime().After(newest) {
			name, newest = path, info.ModTime()
		}
	}
	return cmp.Or(name, dir), newest
}
