// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

const perm fs.FileMode = 0o600

// load reads the file. Its error is fs.ErrNotExist when there is none.
func (f File) load(storeExists bool) (*state, error) {
	data, err := f.read()
	if err != nil {
		return nil, err
	}
	s, err := decode(data)
	if err != nil {
		hint := "restore identity.json from a backup of this node, or start the version of holdfast that wrote it"
		if !storeExists {
			hint += "; no messages are stored here yet, so you may also remove the file, and every user gets new credentials"
		}
		return nil, diag.FailPermanently(diag.CodeIdentity, fmt.Errorf("open identity %s: %w", f.Path, err), hint)
	}
	return s, nil
}

func (f File) read() ([]byte, error) {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, diag.FailPermanently(diag.CodeAccess, fmt.Errorf("open identity: %w", err),
			"give the file to the user that holdfast runs as: "+howto.Here().Give(f.Path))
	}
	if err != nil {
		return nil, fmt.Errorf("open identity: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("stat identity: %w", err)
	}
	// Windows has no such bits: there the directory's access list protects it.
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return nil, diag.FailPermanently(diag.CodeAccess,
			fmt.Errorf("open identity %s: others may read or change it (mode %04o), and whoever reads it is everybody here", f.Path, mode),
			howto.Here().Close(f.Path)+"; if somebody may have read it, every credential of this node is known to them")
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	return data, nil
}

// save replaces the file. What could not be opened again is not written: the
// old file would be gone with it.
func (f File) save(s *state) error {
	data, err := encode(s)
	if err != nil {
		return err
	}
	if _, err := decode(data); err != nil {
		return fmt.Errorf("save identity %s: %w", f.Path, err)
	}
	err = f.Write(f.Path, data, perm)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("save identity %s: %w", f.Path, err)
	if diag.CodeOf(err) != "" {
		return err
	}
	return diag.Fail(diag.CodeIdentityWrite, err, "make sure that the data directory can be written and has room; nothing was changed")
}
