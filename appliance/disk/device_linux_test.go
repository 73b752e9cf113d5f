// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// must runs a program that a test of root needs.
func must(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err == nil {
		return
	}
	if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" || os.Geteuid() == 0 && !errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	t.Skipf("skipping: needs root and %s", name)
}

// A file system that is told not to flush is found out, and the same one that flushes
// is not.
func TestMeasureFindsADiskThatIsNotFlushed(t *testing.T) {
	dir := t.TempDir()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "at")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 64*mib), os.Mkdir(at, 0o700)); err != nil {
		t.Fatal(err)
	}
	must(t, "mkfs.ext4", "-q", "-F", image)
	for options, want := range map[string]Opinion{"loop,nobarrier": Broken, "loop,barrier": Unknown} {
		must(t, "mount", "-t", "ext4", "-o", options, image, at)
		p := quick(at)
		p.For, p.Space = 200*time.Millisecond, 4*mib
		m, err := Measure(t.Context(), p)
		if uerr := unix.Unmount(at, 0); uerr != nil {
			t.Fatal(uerr)
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Device.Name == "" || m.Device.WriteCache != CacheBack || !m.Device.Virtual {
			t.Errorf("got %+v, want the loop device", m.Device)
		}
		if m.Trust.Opinion != want {
			t.Errorf("%s: got %+v, want %s", options, m.Trust, want)
		}
	}
}

// fio does the same with the same disk. Machines are noisy: only a factor is compared,
// of medians that were taken in turn.
func TestFlushesAgreeWithFio(t *testing.T) {
	if _, err := exec.LookPath("fio"); err != nil {
		if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" {
			t.Fatal(err)
		}
		t.Skip("skipping: needs fio")
	}
	dir := t.TempDir()
	var ours, theirs []float64
	for range 5 {
		p := quick(dir)
		p.For, p.AtOnce, p.Space = 300*time.Millisecond, nil, 64*mib
		m, err := Measure(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs = append(ours, m.Flush.P50), append(theirs, fio(t, dir))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	if a, b := ours[2], theirs[2]; a > 3*b || b > 3*a {
		t.Errorf("got %.6f s for a write and its flush, fio %.6f s, want about the same", a, b)
	}
}

// fio returns the median of a write of 4 KiB and its flush, in seconds.
func fio(t *testing.T, dir string) float64 {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "fio", "--name=x", "--directory="+dir, "--rw=write", "--bs=4k", "--size=64m", "--ioengine=sync",
		"--fdatasync=1", "--time_based", "--runtime=300ms", "--output-format=json").Output()
	if err != nil {
		t.Fatalf("fio: %v\n%s", err, out)
	}
	type ns struct {
		Percentile map[string]float64 `json:"percentile"`
	}
	var r struct {
		Jobs []struct {
			Write struct {
				Clat ns `json:"clat_ns"`
			} `json:"write"`
			Sync struct {
				Lat ns `json:"lat_ns"`
			} `json:"sync"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(out, &r); err != nil || len(r.Jobs) != 1 {
		t.Fatalf("fio: %v\n%s", err, out)
	}
	const median = "50.000000"
	return (r.Jobs[0].Write.Clat.Percentile[median] + r.Jobs[0].Sync.Lat.Percentile[median]) / 1e9
}

// recorded is a tree as the kernel shows it, with links.
func recorded(t *testing.T, files, links map[string]string) System {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range links {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(to, path)); err != nil {
			t.Fatal(err)
		}
	}
	return System{Root: root}
}

// TestPartitionOfAnNVMeDisk is recorded: there is no such disk here.
func TestPartitionOfAnNVMeDisk(t *testing.T) {
	const dir = "sys/devices/pci0/nvme/nvme0/nvme0n1/"
	s := recorded(t, map[string]string{
		dir + "queue/write_cache": "write back\n", dir + "queue/scheduler": "mq-deadline [none] kyber\n", dir + "queue/rotational": "0\n",
		dir + "device/model": "ACME Flash 9 \n", dir + "stat": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 4711 17\n", dir + "nvme0n1p2/partition": "2\n",
		"proc/self/mountinfo": "26 1 259:2 / / rw,noatime - ext4 /dev/nvme0n1p2 rw,discard\n",
	}, map[string]string{"sys/dev/block/259:2": "../../devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p2"})
	m, err := s.MountOf(t.TempDir())
	if err != nil || m.Point != "/" || m.FSType != "ext4" || !slices.Equal(m.Options, []string{"rw", "noatime", "discard"}) || !m.Has("nobarrier", "discard") || m.Has("ro") {
		t.Errorf("got %+v, %v, want the mount with the options of both, each once", m, err)
	}
	below := s.Below(m)
	if len(below.Disks) != 1 || below.Disks[0] != below.Top {
		t.Fatalf("got %+v, want the disk alone", below)
	}
	got := below.Top
	if got.Name != "nvme0n1" || got.Model != "ACME Flash 9" || got.WriteCache != CacheBack || got.Scheduler != "none" || got.Rotating || got.Virtual {
		t.Errorf("got %+v, want the disk of the partition", got)
	}
	if want := []string{"mq-deadline", "none", "kyber"}; !slices.Equal(got.Schedulers(), want) {
		t.Errorf("got schedulers %v, want %v", got.Schedulers(), want)
	}
	if n := got.flushes(); n != 4711 {
		t.Errorf("got %d flushes, want 4711", n)
	}
	if n := (Device{}).flushes(); n != -1 {
		t.Errorf("got %d flushes of no device, want -1", n)
	}
}

// TestVolumeOfTwoDisks is recorded: this kernel has no device mapper.
func TestVolumeOfTwoDisks(t *testing.T) {
	const dm = "sys/devices/virtual/block/dm-0/"
	s := recorded(t, map[string]string{
		dm + "queue/read_ahead_kb":                                 "128\n",
		"sys/devices/ata1/sda/sda1/partition":                      "1\n",
		"sys/devices/ata1/sda/sda2/partition":                      "2\n",
		"sys/devices/ata1/sda/queue/rotational":                    "1\n",
		"sys/devices/ata2/sdb/queue/write_cache":                   "write through\n",
		"sys/devices/ata2/sdb/device/scsi_disk/1:0:0:0/cache_type": "write back\n",
		"proc/self/mountinfo":                                      "26 1 253:0 / / rw - xfs /dev/mapper/vg-a rw\n",
	}, map[string]string{
		"sys/dev/block/253:0": "../../devices/virtual/block/dm-0",
		dm + "slaves/sda1":    "../../../../ata1/sda/sda1", dm + "slaves/sda2": "../../../../ata1/sda/sda2", dm + "slaves/sdb": "../../../../ata2/sdb",
	})
	m, err := s.MountOf("/")
	if err != nil {
		t.Fatal(err)
	}
	below := s.Below(m)
	if below.Top.Name != "dm-0" || read(below.Top.Setting("read_ahead_kb"), "") != "128" {
		t.Errorf("got %+v on top, want dm-0", below.Top)
	}
	if len(below.Disks) != 2 || below.Disks[0].Name != "sda" || !below.Disks[0].Rotating || below.Disks[1].OwnCache != CacheBack || below.Disks[1].WriteCache != CacheThrough {
		t.Errorf("got %+v, want sda once and sdb", below.Disks)
	}
}

func TestMemoryHasNoDisk(t *testing.T) {
	s := recorded(t, map[string]string{"proc/self/mountinfo": "26 1 0:26 / / rw - tmpfs tmpfs rw\n"}, nil)
	m, err := s.MountOf("/")
	if below := s.Below(m); err != nil || below.Top.Name != "" || len(below.Disks) > 0 {
		t.Errorf("got %+v, %v, want none", below, err)
	}
}
