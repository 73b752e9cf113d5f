// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// onDisk is a node whose data is not below /tmp, where no node's should be.
func onDisk(t *testing.T) *patient {
	t.Helper()
	home := fmt.Sprintf("/var/lib/holdfast-doctor-test-%d", os.Getpid())
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	p := &patient{t: t, home: home, file: filepath.Join(home, "holdfast.yaml"), data: filepath.Join(home, "data")}
	p.write(p.file, minimal, 0o600)
	if err := os.Mkdir(p.data, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// image makes an ext4 file system in a file and mounts it on the data directory.
func (p *patient) image(options string) {
	p.t.Helper()
	file := filepath.Join(p.home, "image")
	p.write(file, "", 0o600)
	if err := os.Truncate(file, 64<<20); err != nil {
		p.t.Fatal(err)
	}
	mustRun(p.t, "mkfs.ext4", "-q", "-F", file)
	mount(p.t, p.data, "-t", "ext4", "-o", "loop,"+options, file)
	if err := os.Chmod(p.data, 0o700); err != nil {
		p.t.Fatal(err)
	}
}

func TestFileSystemInMemory(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	p := onDisk(t)
	if r := p.isWell("file-system"); !strings.Contains(r.Evidence, " is on /") {
		t.Errorf("got %q, want the mount", r.Evidence)
	}
	mount(t, p.data, "-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs")
	f := p.isIll("file-system", Fail, `its file system is tmpfs, which is memory and empty after a power cut$`)
	p.isComment(f)
	p.heals("file-system", f, func() { p.write(p.file, strings.Replace(minimal, "data_dir: data", "data_dir: elsewhere", 1), 0o600) })
}

func TestFileSystemInAContainerLayer(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	p := onDisk(t)
	for _, dir := range []string{"up", "work", "low"} {
		if err := os.Mkdir(filepath.Join(p.home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mount(t, p.data, "-t", "overlay", "-o", "lowerdir="+p.home+"/low,upperdir="+p.home+"/up,workdir="+p.home+"/work", "overlay")
	p.isComment(p.isIll("file-system", Warn, `its file system is overlay: in a container it is gone with the container`))
	if r := p.look("write-cache"); r.Verdict != Skipped {
		t.Errorf("got %+v, want skipped: the disk can't be seen", r)
	}
}

func TestDataDirBelowTmp(t *testing.T) {
	p := newPatient(t, minimal)
	p.isComment(p.isIll("file-system", Fail, `it is below \S+, which the system cleans`))
}

func TestMountWithoutBarriers(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	p := onDisk(t)
	p.image("nobarrier")
	p.heals("file-system", p.isIll("file-system", Fail, `^\S+/data is mounted with nobarrier$`))
}

func TestMountThatIsReadOnly(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	p := onDisk(t)
	p.image("rw")
	mustRun(t, "mount", "-o", "remount,ro", p.data)
	stub(t, "dmesg", "exit 0")
	p.heals("file-system", p.isIll("file-system", Fail, `^\S+/data is mounted with ro$`))
}

func TestMountWithWriteback(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	p := onDisk(t)
	p.image("data=writeback")
	f := p.isIll("file-system", Warn, `^\S+/data is mounted with data=writeback$`)
	p.isComment(f)
	mustRun(t, "umount", p.data)
	p.heals("file-system", f, func() { mustRun(t, "mount", "-t", "ext4", "-o", "loop", filepath.Join(p.home, "image"), p.data) })
}

func TestVolumeOfAFile(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	p := onDisk(t)
	p.image("rw")
	if r := p.isWell("write-cache"); !strings.HasPrefix(r.Evidence, "loop") || !strings.Contains(r.Evidence, "a file on another file system") {
		t.Errorf("got %q, want the loop device", r.Evidence)
	}
}

func TestVolumeWithoutInodes(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	p := newPatient(t, minimal)
	mount(t, p.data, "-t", "tmpfs", "-o", "size=512m,nr_inodes=2000", "tmpfs")
	p.isWell("space")
	fill := func(name string, files int) {
		for i := range files {
			p.write(filepath.Join(p.data, name, itoa(i)), "", 0o600)
		}
	}
	fill("many", 1820)
	p.isIll("space", Warn, `^178 of 2000 inodes free on the volume of \S+/data$`)
	fill("more", 100)
	f := p.isIll("space", Fail, `^77 of 2000 inodes free on the volume of \S+/data$`)
	p.heals("space", f, func() { // which files are not needed only a person knows
		for _, dir := range []string{"many", "more"} {
			if err := os.RemoveAll(filepath.Join(p.data, dir)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestVolumeThatIsFull(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	p := newPatient(t, minimal)
	mount(t, p.data, "-t", "tmpfs", "-o", "size=2g", "tmpfs")
	p.isWell("space")
	ballast := filepath.Join(p.data, "ballast")
	mustRun(t, "fallocate", "-l", "1900m", ballast)
	p.isIll("space", Warn, `^148 MiB of 2.0 GiB free on the volume of \S+/data, and storage.min_free keeps 102 MiB$`)
	mustRun(t, "fallocate", "-l", "2000m", ballast)
	f := p.isIll("space", Fail, `^48 MiB of 2.0 GiB free on the volume of \S+/data, less than storage.min_free keeps \(102 MiB\)$`)
	p.heals("space", f, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	})
}

func TestVolumeTooSmallForWhatStreamsMayTake(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	p := newPatient(t, strings.Replace(minimal, "8MiB", "200MiB", 1))
	mount(t, p.data, "-t", "tmpfs", "-o", "size=256m", "tmpfs")
	p.isWell("space")
	mustRun(t, "fallocate", "-l", "100m", filepath.Join(p.data, "ballast"))
	f := p.isIll("space", Warn, `^156 MiB of 256 MiB free, streams use 0 B and may take 200 MiB of the volume`)
	p.heals("space", f, func() { mustRun(t, "mount", "-o", "remount,size=512m", p.data) })
	// What the streams have already is theirs.
	mustRun(t, "mount", "-o", "remount,size=256m", p.data)
	p.write(filepath.Join(p.data, "jetstream/A/1.blk"), strings.Repeat("x", 60<<20), 0o600)
	if err := os.Truncate(filepath.Join(p.data, "ballast"), 40<<20); err != nil {
		t.Fatal(err)
	}
	p.isWell("space")
}

// TestWriteCacheThatTheKernelWasToldNotToFlush is recorded from a SATA disk: this
// machine's is virtual, and has no say of its own.
func TestWriteCacheThatTheKernelWasToldNotToFlush(t *testing.T) {
	p := newPatient(t, minimal)
	p.root = t.TempDir()
	disk := filepath.Join(p.root, "sys/devices/pci0/ata1/block/sda")
	p.write(filepath.Join(disk, "sda2/partition"), "2\n", 0o644)
	p.write(filepath.Join(disk, "queue/write_cache"), "write through\n", 0o644)
	p.write(filepath.Join(disk, "device/scsi_disk/0:0:0:0/cache_type"), "write back\n", 0o644)
	p.write(filepath.Join(p.root, "proc/self/mountinfo"), "26 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n", 0o644)
	if err := os.MkdirAll(filepath.Join(p.root, "sys/dev/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../devices/pci0/ata1/block/sda/sda2", filepath.Join(p.root, "sys/dev/block/8:2")); err != nil {
		t.Fatal(err)
	}
	p.ask = func(context.Context) (Node, error) {
		return Node{PID: 1, Ready: true, Flush: 4 * time.Millisecond}, nil
	}
	p.heals("write-cache", p.isIll("write-cache", Fail, `^sda has a write cache of its own \(write back\), and the kernel was told that it has none`))
	if r := p.isWell("write-cache"); r.Evidence != "sda: write back, flushes are sent; a flush took 4ms at the node's start" {
		t.Errorf("got %q, want the cache and the flush", r.Evidence)
	}
	// A disk that has no say, and none that loses anything.
	p.write(filepath.Join(disk, "device/scsi_disk/0:0:0:0/cache_type"), "write through\n", 0o644)
	p.write(filepath.Join(disk, "queue/write_cache"), "write through\n", 0o644)
	p.isWell("write-cache")
	p.write(filepath.Join(disk, "queue/write_cache"), "write back\n", 0o644)
	// What `holdfast bench disk` has found.
	p.write(filepath.Join(p.data, "disk.json"), `{"flush": {"p50_seconds": 0.00001}, "trust": {"opinion": "broken", "why": "barriers are off"}}`, 0o640)
	p.isIll("write-cache", Fail, `^barriers are off$`)
	p.write(filepath.Join(p.data, "disk.json"), `{"flush": {"p50_seconds": 0.002, "max_seconds": 0.01}, "trust": {"opinion": "plausible"}}`, 0o640)
	if r := p.isWell("write-cache"); !strings.Contains(r.Evidence, "2ms a flush, 10ms at worst, plausible") {
		t.Errorf("got %q, want what was measured", r.Evidence)
	}
	// Through device mapper and a btrfs, which has no number of its own.
	dm := filepath.Join(p.root, "sys/devices/virtual/block/dm-0")
	p.write(filepath.Join(dm, "queue/write_cache"), "write back\n", 0o644)
	for link, target := range map[string]string{filepath.Join(dm, "slaves/sda2"): disk + "/sda2", filepath.Join(p.root, "sys/class/block/dm-0"): dm} {
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	p.write(filepath.Join(p.root, "proc/self/mountinfo"), "26 1 0:26 / / rw,relatime - btrfs /dev/dm-0 rw\n", 0o644)
	if r := p.isWell("write-cache"); !strings.HasPrefix(r.Evidence, "sda: write back") {
		t.Errorf("got %q, want the disk below", r.Evidence)
	}
}
