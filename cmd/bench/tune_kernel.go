// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/disk"
	"github.com/holdfast-mq/holdfast/appliance/tune"
	"github.com/holdfast-mq/holdfast/cmd/internal/loopdisk"
)

// shm is a file system in memory, on every Linux.
const shm = "/dev/shm"

// storm is what is written in the long trials: more than the kernel lets lie in memory.
const storm = 4 << 30

// candidates is everything that is compared, in the order of the table.
func candidates(dir string) []candidate {
	var all []candidate
	add := func(group, what, from, to string, open func(context.Context, *tuneLab) (tune.Trial, func() error, string, error)) {
		all = append(all, candidate{group, what, from, to, open})
	}
	below := diskBelow(dir)
	queue := func(group, name, load, from, to string) {
		add(group, name+" of "+below.Name, from, to, knobTrial(below.Setting(name), load, from, to, 0))
	}
	for _, load := range []string{tune.LoadFlush, tune.LoadBusy, tune.LoadScan} {
		for _, to := range []string{"none", "kyber", "bfq"} {
			queue("scheduler", "scheduler", load, "mq-deadline", to)
		}
	}
	for _, pair := range [][2]string{{"128", "1024"}, {"128", "4096"}, {"128", "8192"}} {
		queue("read-ahead", "read_ahead_kb", tune.LoadScan, pair[0], pair[1])
	}
	queue("wbt", "wbt_lat_usec", tune.LoadFlush, "75000", "2000")
	for _, to := range []string{"10000", "2000", "0"} {
		queue("wbt", "wbt_lat_usec", tune.LoadBusy, "75000", to)
	}
	queue("wbt", "wbt_lat_usec", tune.LoadScan, "75000", "2000")
	queue("wbt", "wbt_lat_usec", tune.LoadChurn, "75000", "2000")
	queue("requests", "nr_requests", tune.LoadBusy, "256", "32")
	queue("requests", "max_sectors_kb", tune.LoadBusy, "4096", "512")
	queue("requests", "rq_affinity", tune.LoadBusy, "1", "2")
	queue("requests", "nomerges", tune.LoadBusy, "0", "2")
	const vm = "/proc/sys/vm/"
	add("dirty", "vm.dirty_background_ratio", "10", "1", knobTrial(vm+"dirty_background_ratio", tune.LoadStorm, "10", "1", storm))
	add("dirty", "vm.dirty_writeback_centisecs", "500", "100", knobTrial(vm+"dirty_writeback_centisecs", tune.LoadStorm, "500", "100", storm))
	for _, o := range [][3]string{
		{"relatime", "noatime", tune.LoadChurn}, {"discard", "nodiscard", tune.LoadChurn}, {"commit=5", "commit=60", tune.LoadBusy}, {"lazytime", "nolazytime", tune.LoadBusy},
		{"barrier=1", "barrier=0", tune.LoadFlush},
	} {
		add("mount", "mount option of ext4, in memory", o[0], o[1], mountTrial(o[0], o[1], o[2]))
	}
	for _, size := range []int64{128 << 10, 512 << 10, 1 << 20, 4 << 20, 16 << 20} {
		add("blocks", "max_bytes of a full stream", mebibytes(size), mebibytes(64<<20), blocksTrial(size, 64<<20))
	}
	for _, n := range []int{16, 128} {
		add("concurrent-io", "max_concurrent_io", "4096", fmt.Sprint(n), concurrentTrial(4096, n))
	}
	return all
}

// diskBelow is the disk that a directory is on; an unknown one has no settings.
func diskBelow(dir string) disk.Device {
	var sys disk.System
	m, err := sys.MountOf(dir)
	if err != nil {
		return disk.Device{}
	}
	if disks := sys.Below(m).Disks; len(disks) == 1 {
		return disks[0]
	}
	return disk.Device{}
}

// knobTrial compares two values of a file of the kernel.
func knobTrial(file, load, from, to string, space int64) func(context.Context, *tuneLab) (tune.Trial, func() error, string, error) {
	return func(_ context.Context, l *tuneLab) (t tune.Trial, end func() error, lacks string, err error) {
		text, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return t, nil, "no " + filepath.Base(file), nil
		case err != nil:
			return t, nil, "", fmt.Errorf("read setting: %w", err)
		}
		was := disk.Chosen(strings.TrimSpace(string(text)))
		put := func(v string) func() error {
			return func() error {
				if err := os.WriteFile(file, []byte(v), 0o644); err != nil {
					return fmt.Errorf("write setting: %w", err)
				}
				return nil
			}
		}
		for _, v := range []string{to, from, was} {
			if err := put(v)(); err != nil {
				return t, nil, "it does not take " + v, errors.Join(ignoreInvalid(err), put(was)())
			}
		}
		t = tune.Trial{Dir: l.dir, Load: load, Space: space, Before: put(from), After: put(to)}
		if space == storm {
			t.Each = 4 * l.each
		}
		return t, put(was), "", nil
	}
}

// ignoreInvalid is for what the kernel does not know here: the candidate is left out.
func ignoreInvalid(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return err // not root
	}
	return nil
}

// mountTrial compares two options of a file system in a file, which is remounted. The file
// is in memory, where that is possible: what an option costs shows most where the disk
// costs nothing.
func mountTrial(from, to, load string) func(context.Context, *tuneLab) (tune.Trial, func() error, string, error) {
	return func(ctx context.Context, l *tuneLab) (t tune.Trial, end func() error, lacks string, err error) {
		if missing := loopdisk.Missing([]string{"ext4"}); len(missing) > 0 {
			return t, nil, strings.Join(missing, ", "), nil
		}
		dir, err := os.MkdirTemp(shm, "holdfast-bench-")
		remove := func() error { return os.RemoveAll(dir) }
		if err != nil {
			if dir, remove, err = l.scratch("mount"); err != nil {
				return t, nil, "", err
			}
		}
		d, err := loopdisk.New(ctx, dir, "ext4", 1<<30)
		if err == nil {
			err = d.Mount(ctx)
		}
		if err != nil {
			return t, nil, "", errors.Join(err, remove())
		}
		put := func(option string) func() error {
			return func() error {
				out, err := exec.Command("mount", "-o", "remount,"+option, d.At).CombinedOutput()
				if err != nil {
					return fmt.Errorf("remount with %s: %w: %s", option, err, bytes.TrimSpace(out))
				}
				return nil
			}
		}
		end = func() error { return errors.Join(d.Unmount(context.WithoutCancel(ctx)), remove()) }
		return tune.Trial{Dir: d.At, Load: load, Before: put(from), After: put(to)}, end, "", nil
	}
}

func mebibytes(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
