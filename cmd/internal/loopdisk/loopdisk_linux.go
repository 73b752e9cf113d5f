// SPDX-License-Identifier: Apache-2.0

package loopdisk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// shutdownIoctl is FS_IOC_SHUTDOWN of ext4 and XFS; noLogFlush drops what the
	// journal has only in memory, as a power cut does.
	shutdownIoctl = 0x8004587d
	noLogFlush    = 2
	// commandLimit is for mkfs, mount and the like on a machine that is busy.
	commandLimit = time.Minute
)

// Disk is a file system in an image file, mounted by a loop device that goes
// away with the mount.
type Disk struct {
	Image string // the file
	At    string // the mount point
	kind  string // ext4 or xfs
}

// Missing lists what is not there to mount disks of these kinds here.
func Missing(kinds []string) []string {
	var missing []string
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil || os.Geteuid() != 0 || caps[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
		missing = append(missing, "root")
	}
	if f, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0); err != nil {
		missing = append(missing, "loop devices (/dev/loop-control)")
	} else {
		f.Close()
	}
	packages := map[string]string{"mkfs.xfs": "xfsprogs", "mkfs.ext4": "e2fsprogs", "mount": "mount", "umount": "mount"}
	tools := []string{"mount", "umount"}
	for _, k := range kinds {
		tools = append(tools, "mkfs."+k)
	}
	for _, t := range tools {
		if _, err := exec.LookPath(t); err != nil {
			missing = append(missing, fmt.Sprintf("%s (package %s)", t, packages[t]))
		}
	}
	return missing
}

// New makes an empty file system of size bytes. Nothing is mounted yet.
func New(ctx context.Context, dir, kind string, size int64) (*Disk, error) {
	d := &Disk{kind: kind, Image: filepath.Join(dir, kind+".img"), At: filepath.Join(dir, kind)}
	if err := os.MkdirAll(d.At, 0o755); err != nil {
		return nil, fmt.Errorf("make mount point: %w", err)
	}
	f, err := os.Create(d.Image)
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	force := map[string]string{"ext4": "-F", "xfs": "-f"}[kind]
	return d, command(ctx, "mkfs."+kind, "-q", force, d.Image)
}

// Mount runs the recovery of the journal when there is something to recover.
func (d *Disk) Mount(ctx context.Context) error {
	return command(ctx, "mount", "-t", d.kind, "-o", "loop", d.Image, d.At)
}

// Unmount also detaches the loop device.
func (d *Disk) Unmount(ctx context.Context) error { return command(ctx, "umount", d.At) }

// PowerSwitch cuts a mounted file system off its disk.
type PowerSwitch struct{ mount *os.File }

// PowerSwitch must be closed, or used, before the disk can be unmounted.
func (d *Disk) PowerSwitch() (*PowerSwitch, error) {
	f, err := os.Open(d.At)
	if err != nil {
		return nil, fmt.Errorf("open mount point: %w", err)
	}
	return &PowerSwitch{f}, nil
}

// Cut leaves on the disk what was written to it, and nothing of what is in memory.
func (s *PowerSwitch) Cut() error {
	err := unix.IoctlSetPointerInt(int(s.mount.Fd()), shutdownIoctl, noLogFlush)
	if err != nil {
		err = fmt.Errorf("cut power: %w", err)
	}
	return errors.Join(err, s.Close())
}

// Close leaves the power on.
func (s *PowerSwitch) Close() error { return s.mount.Close() }

// Keep copies the image as the cut left it, before any recovery.
func (d *Disk) Keep(ctx context.Context, to string) error {
	return command(ctx, "cp", "--sparse=always", "--reflink=auto", d.Image, to)
}

// MountMemory mounts an empty file system in memory over a directory.
func MountMemory(ctx context.Context, at string) error {
	return command(ctx, "mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", at)
}

// ForgetMemory empties what MountMemory has mounted.
func ForgetMemory(ctx context.Context, at string) error {
	if err := command(ctx, "umount", at); err != nil {
		return err
	}
	return MountMemory(ctx, at)
}

// command is not ended by the end of ctx: half a umount helps nobody.
func command(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

// Apart makes a command run in a mount namespace of its own: however it ends,
// a panic and a SIGKILL included, the kernel then unmounts and detaches all
// that it has mounted.
func Apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
}
