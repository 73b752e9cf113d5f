// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// withDisk gives a container that is off a disk of its own for the data directory: a
// loop device, whose settings are the machine's. It returns their directory in /sys.
func (c *container) withDisk() string {
	c.t.Helper()
	image, at := filepath.Join(c.dir, "disk.img"), filepath.Join(c.root, data)
	if err := errors.Join(os.MkdirAll(at, 0o750), os.WriteFile(image, nil, 0o600), os.Truncate(image, 512<<20)); err != nil {
		c.t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, at}, {"rmdir", filepath.Join(at, "lost+found")}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			c.t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	c.t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			c.t.Errorf("unmount the disk: %v", err)
		}
	})
	source, err := exec.Command("findmnt", "--noheadings", "--output", "SOURCE", at).Output()
	if err != nil {
		c.t.Fatal(err)
	}
	return "/sys/block/" + filepath.Base(strings.TrimSpace(string(source))) + "/queue/"
}

// better says that values were measured to be better on the disk.
func (c *container) better(queue string, all ...[3]string) {
	c.t.Helper()
	var out []string
	for _, r := range all {
		out = append(out, fmt.Sprintf(`{"name": %q, "target": %q, "from": %q, "to": %q, "verdict": "helps", "figures": [{"verdict": "helps", "ratio": 0.5}]}`,
			r[0], filepath.Base(filepath.Dir(filepath.Clean(queue))), r[1], r[2]))
	}
	c.write("/var/lib/holdfast-tune/measured.json", "["+strings.Join(out, ",")+"]")
}

// TestTuneInAContainer has a disk whose settings are the machine's: read-only there
// until somebody says otherwise, as in any container.
func TestTuneInAContainer(t *testing.T) {
	t.Parallel()
	c := unpack(t, debian)
	queue := c.withDisk()
	c.start()
	c.run("dpkg --install " + c.put(built(t, older, ".deb")))
	c.waitUnit("active")
	is := func(file, want string) {
		t.Helper()
		text, err := os.ReadFile(queue + file)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: got %q, %v, want %q", file, text, err, want)
		}
	}
	give := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(queue+file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	enabled := func(want string) {
		t.Helper()
		if got := strings.TrimSpace(c.try("systemctl is-enabled holdfast-tune.service").out); got != want {
			t.Errorf("got holdfast-tune.service %q, want %q", got, want)
		}
	}
	give("scheduler", "mq-deadline")
	give("read_ahead_kb", "64")
	enabled("disabled")
	c.wantSaid(c.run("holdfast tune scheduler read-ahead"), "unmeasured", "--measure")
	c.better(queue, [3]string{"scheduler", "mq-deadline", "none"}, [3]string{"read-ahead", "64", "1024"}, [3]string{"read-ahead", "128", "1024"})

	// What can't be written here is said, and is nothing to change.
	c.wantSaid(c.run("holdfast tune scheduler read-ahead"), "closed", "host of the container")
	c.wantSaid(c.run("holdfast tune scheduler read-ahead --apply --yes"), "nothing to change")
	is("read_ahead_kb", "64")

	c.run("mount -o remount,rw /sys/devices")
	if r := c.try("holdfast tune scheduler read-ahead"); r.code != 3 {
		t.Errorf("got exit code %d, want 3:\n%s%s", r.code, r.out, r.err)
	}
	if r := c.try("holdfast tune --apply </dev/null"); r.code != 2 {
		t.Errorf("got exit code %d without a terminal, want 2:\n%s%s", r.code, r.out, r.err)
	}
	c.wantSaid(c.run("holdfast tune scheduler read-ahead --apply --at-boot --yes"), "mq-deadline → none", "64 → 1024", "at each boot")
	is("scheduler", "[none]")
	is("read_ahead_kb", "1024")
	enabled("enabled")
	c.run("test $(stat -c %u:%a /var/lib/holdfast-tune/before.json) = 0:644")

	// The kernel stays over a restart of the container: what it would forget, the test takes
	// away. systemd has /sys read-only again, where the unit has nothing to do.
	give("scheduler", "mq-deadline")
	give("read_ahead_kb", "128")
	c.reboot()
	c.waitUnit("active")
	if got := strings.TrimSpace(c.run("systemctl show --property=ConditionResult --value holdfast-tune.service")); got != "no" {
		t.Errorf("got condition %q, want the unit skipped where /sys is read-only", got)
	}
	is("scheduler", "[mq-deadline]")
	// A unit of its own, as a host has it: what the unit itself mounted would be its own.
	c.write("/etc/systemd/system/writable.service", "[Service]\nType=oneshot\nExecStart=/bin/mount -o remount,rw /sys/devices\n")
	c.write("/etc/systemd/system/holdfast-tune.service.d/writable.conf", "[Unit]\nConditionPathIsReadWrite=\nRequires=writable.service\nAfter=writable.service\n")
	c.reboot()
	c.waitUnit("active")
	is("scheduler", "[none]")
	is("read_ahead_kb", "1024")
	c.wantSaid(c.run("systemctl show --property=ActiveState,Result holdfast-tune.service; journalctl --no-pager --boot --unit=holdfast-tune.service"), "ActiveState=active", "mq-deadline → none")
	tuned := strings.TrimSpace(c.run("systemctl show --property=ActiveEnterTimestampMonotonic --value holdfast-tune.service"))
	begun := strings.TrimSpace(c.run("systemctl show --property=ExecMainStartTimestampMonotonic --value holdfast.service"))
	if len(tuned) > len(begun) || len(tuned) == len(begun) && tuned > begun {
		t.Errorf("got the settings at %s and the node at %s, want the settings first", tuned, begun)
	}

	// Somebody else has a hand in it, and the package goes. In a container of systemd-nspawn
	// a unit sees another boot_id than a shell, so that this begins with a shell's.
	give("scheduler", "mq-deadline")
	give("read_ahead_kb", "64")
	c.run("holdfast tune scheduler read-ahead --apply --yes")
	give("read_ahead_kb", "256")
	said := c.run("dpkg --remove holdfast 2>&1")
	c.wantSaid(said, "none → mq-deadline", "left at 256")
	is("scheduler", "[mq-deadline]")
	is("read_ahead_kb", "256")
	c.run("dpkg --purge holdfast")
	c.want(false, "/var/lib/holdfast-tune", "/etc/systemd/system/multi-user.target.wants/holdfast-tune.service")
}

// TestTuneWithoutAPackage is a tarball's: the unit is written, and goes again.
func TestTuneWithoutAPackage(t *testing.T) {
	t.Parallel()
	c := unpack(t, debian)
	queue := c.withDisk()
	c.start()
	c.run("cd /root; tar --extract --file " + c.put(built(t, older, ".tar.gz")) + "; install -m 755 holdfast_*/holdfast /usr/local/bin/; mount -o remount,rw /sys/devices")
	if err := os.WriteFile(queue+"read_ahead_kb", []byte("64"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.better(queue, [3]string{"read-ahead", "64", "1024"})
	const unit = "/etc/systemd/system/holdfast-tune.service"
	c.wantSaid(c.run("holdfast tune read-ahead --data-dir "+data+" --apply --at-boot --yes"), "64 → 1024", unit)
	c.wantSaid(c.run("cat "+unit), "ExecStart=/usr/local/bin/holdfast tune --boot")
	c.run("systemctl is-enabled holdfast-tune.service")
	c.wantSaid(c.run("holdfast tune --data-dir "+data+" --undo --yes"), "1024 → 64", "removed "+unit)
	c.want(false, unit, "/var/lib/holdfast-tune/before.json")
}
