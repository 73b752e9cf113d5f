// SPDX-License-Identifier: Apache-2.0

package main

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

// disk is a file system in an image file, mounted by a loop device that goes
// away with the mount.
type disk struct {
	kind  string // ext4 or xfs
	image string
	at    string
}

// needs lists what is missing to cut power here.
func needs(kinds []string) []string {
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

// newDisk makes an empty file system. Nothing is mounted yet.
func newDisk(ctx context.Context, dir, kind string, size int64) (*disk, error) {
	d := &disk{kind: kind, image: filepath.Join(dir, kind+".img"), at: filepath.Join(dir, kind)}
	if err := os.MkdirAll(d.at, 0o755); err != nil {
		return nil, fmt.Errorf("make mount point: %w", err)
	}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	force := map[string]string{"ext4": "-F", "xfs": "-f"}[kind]
	return d, command(ctx, "mkfs."+kind, "-q", force, d.image)
}

// mount runs the recovery of the journal when there is something to recover.
func (d *disk) mount(ctx context.Context) error {
	return command(ctx, "mount", "-t", d.kind, "-o", "loop", d.image, d.at)
}

func (d *disk) unmount(ctx context.Context) error { return command(ctx, "umount", d.at) }

// powerSwitch cuts a mounted file system off its disk.
type powerSwitch struct{ mount *os.File }

func (d *disk) powerSwitch() (*powerSwitch, error) {
	f, err := os.Open(d.at)
	if err != nil {
		return nil, fmt.Errorf("open mount point: %w", err)
	}
	return &powerSwitch{f}, nil
}

// cut leaves on the disk what was written to it, and nothing of what is in memory.
func (s *powerSwitch) cut() error {
	err := unix.IoctlSetPointerInt(int(s.mount.Fd()), shutdownIoctl, noLogFlush)
	if err != nil {
		err = fmt.Errorf("cut power: %w", err)
	}
	return errors.Join(err, s.close())
}

func (s *powerSwitch) close() error { return s.mount.Close() }

// keep copies the image as the cut left it, before any recovery.
func (d *disk) keep(ctx context.Context, to string) error {
	return command(ctx, "cp", "--sparse=always", "--reflink=auto", d.image, to)
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

// apart makes a command run in a mount namespace of its own: however it ends,
// a panic and a SIGKILL included, the kernel then unmounts and detaches all
// that it has mounted.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
}

// tied makes a command end with this process.
func tied(cmd *exec.Cmd) {
	// Not ended by the ^C that this process gets: a node is to be cut, not stopped.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
