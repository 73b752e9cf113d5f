// SPDX-License-Identifier: Apache-2.0

package nest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Until asks f, with pauses, until it has no error any more; the last one when patience is
// at its end.
func Until(patience, pause time.Duration, f func() error) error {
	deadline := time.After(patience)
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-deadline:
			return err
		case <-time.After(pause):
		}
	}
}

// Copy copies a file, and makes the directory that it goes to.
func Copy(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Built is the one file in dir with this extension.
func Built(dir, extension string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+extension))
	if err != nil {
		return "", err
	}
	if len(files) != 1 {
		return "", fmt.Errorf("got %q for %s in %s, want one file", files, extension, dir)
	}
	return files[0], nil
}
