// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestOpenRefusesASecondTimeInOneProcess(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, Options{})
	wantFault(t, openErr(path, Options{}), diag.CodeLocked, false, path, "in use by this process itself", "node.data_dir")
	mustClose(t, d)
	mustOpen(t, path, Options{})
}

func TestOpenNamesTheOtherProcess(t *testing.T) {
	path := newPath(t)
	owner, _ := startChild(t, order{Dir: path})
	if owner.Err != "" {
		t.Fatal(owner.Err)
	}
	err := openErr(path, Options{})
	wantFault(t, err, diag.CodeLocked, false, path, "is in use by "+pidWord(owner.PID), ", since 2", "kill ", "systemctl stop holdfast", "node.data_dir")
}

func TestAProcessIsRefusedWhileThisOneHasTheLock(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, Options{})
	refused, _ := startChild(t, order{Dir: path})
	wantReport(t, refused, diag.CodeLocked, false, "is in use by "+pidWord(os.Getpid()))
	mustClose(t, d)
	if got, _ := startChild(t, order{Dir: path}); got.Err != "" {
		t.Errorf("got %q after Close, want no error", got.Err)
	}
}

// Where directories cannot be locked (Windows, NFS) the file is all there is.
func TestTheLockFileAloneKeepsASecondNodeOut(t *testing.T) {
	dir := newDirWith(t)
	l := flock.New(filepath.Join(dir, lockName))
	if got, err := l.TryLock(); err != nil || !got {
		t.Fatalf("got %t, %v, want the lock", got, err)
	}
	wantFault(t, openErr(dir, Options{}), diag.CodeLocked, false, "in use by another process")
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir, Options{})
}

func TestARefusedOpenChangesNothing(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, Options{})
	stampBefore, lockBefore := mustRead(t, path, stampName), mustRead(t, path, lockName)
	leftover := filepath.Join(d.CredsDir(), ".holdfast-1.tmp")
	if err := os.WriteFile(leftover, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := openErr(path, Options{Version: "9.9.9"}); diag.CodeOf(err) != diag.CodeLocked {
		t.Fatalf("got %v, want %s", err, diag.CodeLocked)
	}
	if got := mustRead(t, path, stampName); got != stampBefore {
		t.Errorf("got stamp %q, want %q", got, stampBefore)
	}
	if got := mustRead(t, path, lockName); got != lockBefore {
		t.Errorf("got lock file %q, want %q", got, lockBefore)
	}
	if _, err := os.Stat(leftover); err != nil {
		t.Errorf("got %v, want the owner's temporary file to stay", err)
	}
}

func TestALockFileWithoutALockIsNoObstacle(t *testing.T) {
	for _, content := range []string{"", "x", "\n" + `{"pid":1,"since":"2026-01-02T03:04:05Z","host":"h"}`, strings.Repeat("junk", 4096)} {
		dir := newDirWith(t)
		if err := os.WriteFile(filepath.Join(dir, lockName), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		mustOpen(t, dir, Options{})
		if got, _ := startChild(t, order{Dir: dir}); got.Code != string(diag.CodeLocked) {
			t.Errorf("got %+v, want %s", got, diag.CodeLocked)
		}
	}
}

// What the lock file says is only a help: the refusal stands whatever it is.
func TestTheRefusalStandsWhateverTheLockFileSays(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	record := func(pid int, host string) string {
		data, err := json.Marshal(owner{PID: pid, Since: time.Now(), Host: host})
		if err != nil {
			t.Fatal(err)
		}
		return "\n" + string(data)
	}
	const maxPID = 1 << 30 // above what the kernel gives out
	for content, want := range map[string]string{
		"":                           "in use by another process",
		"\n{":                        "in use by another process",
		record(0, host):              "in use by another process",
		record(-1, host):             "in use by another process",
		record(812, "another"):       `in use by process 812 on host "another"`,
		record(os.Getppid(), host):   "in use by " + pidWord(os.Getppid()),
		record(maxPID, host):         "in use by",
		record(maxPID, "anoth\ner"):  `on host "anoth\ner"`,
		strings.Repeat("junk", 4096): "in use by another process",
	} {
		path := newPath(t)
		mustOpen(t, path, Options{})
		if err := os.WriteFile(filepath.Join(path, lockName), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		wantFault(t, openErr(path, Options{}), diag.CodeLocked, false, want)
	}
}

func TestOneOfManyThatStartTogetherGetsTheDirectory(t *testing.T) {
	const starters = 8
	for range 20 {
		path := newPath(t)
		results := make(chan error, starters)
		var opened atomic.Pointer[Dir]
		for range starters {
			go func() {
				d, err := Open(path, Options{AllowUnsafe: true})
				if err == nil && !opened.CompareAndSwap(nil, d) {
					err = errors.Join(errors.New("got the lock twice, want once"), d.Close())
				}
				results <- err
			}()
		}
		for range starters {
			if err := <-results; err != nil && diag.CodeOf(err) != diag.CodeLocked {
				t.Errorf("got %v, want %s", err, diag.CodeLocked)
			}
		}
		if opened.Load() == nil {
			t.Fatal("got no owner, want one")
		}
		mustClose(t, opened.Load())
	}
}

func mustRead(t *testing.T, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
