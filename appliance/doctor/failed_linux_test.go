// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestDiskThatFailedUnderARunningNode has somebody with files open on it, as the node has
// them: nobody is to be told to kill it, or to restore a backup.
func TestDiskThatFailedUnderARunningNode(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	p := newPatient(t, minimal)
	image := filepath.Join(p.home, "image")
	p.write(image, "", 0o600)
	if err := os.Truncate(image, 320<<20); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "mkfs.xfs", "-q", image)
	mount(t, p.data, "-o", "loop", image)
	if err := os.Chmod(p.data, 0o700); err != nil {
		t.Fatal(err)
	}
	p.opened()
	start(t, "holdfast", "write|"+filepath.Join(p.data, "LOCK"), nil)
	shutDown(t, p.data)
	for _, check := range []string{"lock", "store"} {
		f := p.isIll(check, Fail, "^the disk of .* does not answer: .*input/output error$")
		p.isComment(f)
		for _, never := range []string{"kill", "backup"} {
			if r := p.look(check); strings.Contains(r.Findings[0].Fix, never) || len(r.Findings) != 1 {
				t.Errorf("%s: got %+v, want one finding that does not say %q", check, r.Findings, never)
			}
		}
	}
}

// shutDown makes a file system one whose disk has failed (FS_IOC_SHUTDOWN).
func shutDown(t *testing.T, at string) {
	t.Helper()
	d, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const request, withoutLog = 0x8004587d, 2
	how := uint32(withoutLog)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), request, uintptr(unsafe.Pointer(&how))); errno != 0 {
		t.Fatal(errno)
	}
}
