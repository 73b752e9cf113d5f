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
		if m.Device.Name == "" || m.Device.WriteCache != cacheBack || !m.Device.Virtual {
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

func TestDeviceReadsWhatTheKernelSays(t *testing.T) {
	root := t.TempDir()
	disk := filepath.Join(root, "nvme0n1")
	for name, text := range map[string]string{
		"queue/write_cache": "write back\n", "queue/scheduler": "mq-deadline [none] kyber\n", "queue/rotational": "0\n",
		"device/model": "ACME Flash 9 \n", "stat": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 4711 17\n", "nvme0n1p2/partition": "2\n",
	} {
		path := filepath.Join(disk, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(root, "259:2")
	if err := os.Symlink(filepath.Join(disk, "nvme0n1p2"), link); err != nil {
		t.Fatal(err)
	}
	got := deviceAt(link)
	if got.Name != "nvme0n1" || got.Model != "ACME Flash 9" || got.WriteCache != cacheBack || got.Scheduler != "none" || got.Rotating || got.Virtual {
		t.Errorf("got %+v, want the disk of the partition", got)
	}
	if n := got.flushes(); n != 4711 {
		t.Errorf("got %d flushes, want 4711", n)
	}
	if n := (Device{}).flushes(); n != -1 {
		t.Errorf("got %d flushes of no device, want -1", n)
	}
}
