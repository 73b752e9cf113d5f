// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// The lock file has a fixed size and is overwritten in place, which needs no
// space on a full disk. The record starts at byte 1: on Windows byte 0 is what
// is locked, and nobody else may read it.
const (
	recordOffset = 1
	recordSize   = 511
)

// owner is the record in the lock file. It only describes the lock: who holds
// it is known to the kernel, so the file of a dead process is no obstacle.
type owner struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	Host  string    `json:"host"`
}

// lock holds LOCK and, where the system can, the directory itself, so that
// deleting LOCK does not let a second node in.
type lock struct {
	file *flock.Flock
	dir  *flock.Flock // nil where directories cannot be locked
}

func acquire(dir string) (*lock, error) {
	path := filepath.Join(dir, lockName)
	l := &lock{file: flock.New(path)}
	got, err := l.file.TryLock()
	if err != nil {
		return nil, explain("lock", path, err)
	}
	if !got {
		return nil, lockedFault(dir)
	}
	var held bool
	if l.dir, held = lockDirectory(dir); held {
		return nil, errors.Join(lockedFault(dir), l.release())
	}
	if err := writeOwner(path); err != nil {
		return nil, errors.Join(explain("lock", path, err), l.release())
	}
	return l, nil
}

func (l *lock) release() error {
	var errs []error
	for _, f := range []*flock.Flock{l.dir, l.file} {
		if f == nil {
			continue
		}
		if err := f.Unlock(); err != nil {
			errs = append(errs, fmt.Errorf("unlock %s: %w", f.Path(), err))
		}
	}
	return errors.Join(errs...)
}

func writeOwner(path string) error {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	data, err := json.Marshal(owner{PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second), Host: host})
	if err != nil {
		return err
	}
	record := bytes.Repeat([]byte{' '}, recordSize)
	record[recordSize-1] = '\n'
	copy(record, data)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(record, recordOffset)
	err = errors.Join(err, f.Close())
	if isDiskFull(err) {
		// The lock is held all the same, and an existing node must start on a full
		// disk; a new one is stopped by the stamp.
		return nil
	}
	return err
}

// readOwner returns false when the file says nothing usable.
func readOwner(path string) (owner, bool) {
	f, err := os.Open(path)
	if err != nil {
		return owner{}, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, recordOffset, recordSize))
	if err != nil {
		return owner{}, false
	}
	var o owner
	if err := json.Unmarshal(data, &o); err != nil || o.PID <= 0 {
		return owner{}, false
	}
	return o, true
}

func lockedFault(dir string) error {
	const elsewhere = "set node.data_dir to another directory"
	stop := "`" + howto.Here().Stop() + "`"
	who, hint := "another process", "stop it ("+stop+" if it is the service), or "+elsewhere
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	o, ok := readOwner(filepath.Join(dir, lockName))
	since := ", since " + o.Since.UTC().Format(time.RFC3339)
	switch {
	case !ok:
	case o.Host != host:
		// A process id means nothing here: another machine, or another container.
		who = fmt.Sprintf("process %d on host %q", o.PID, o.Host) + since
		hint = "stop it there, or " + elsewhere
	case o.PID == os.Getpid():
		who, hint = "this process itself"+since, elsewhere
	default:
		// The record of a dead process means that the new owner has not written its own yet.
		if name, alive := processName(o.PID); alive {
			who = fmt.Sprintf("process %d%s", o.PID, name) + since
			hint = fmt.Sprintf("stop it (`%s`, or %s if it is the service), or %s", howto.Here().End(o.PID), stop, elsewhere)
		}
	}
	return diag.Fail(diag.CodeLocked, fmt.Errorf("data directory %s is in use by %s", dir, who), hint)
}
