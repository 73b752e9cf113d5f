// SPDX-License-Identifier: Apache-2.0

//go:build unix

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// makePrivate makes a directory for this user alone.
func makePrivate(path string) error { return os.Mkdir(path, 0o700) }

// checkAccess refuses a directory that this user does not own alone. Root is
// refused as well: it could write, but would leave files that the owner cannot
// open at the next start of the service.
func checkAccess(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil {
		return explain("open data directory", dir, err)
	}
	if err := checkOwner(dir, "data directory "+dir, fi); err != nil {
		return err
	}
	if mode := fi.Mode().Perm(); mode&0o022 != 0 {
		return diag.FailPermanently(diag.CodeAccess,
			fmt.Errorf("data directory %s can be written by other users (mode %04o), and it holds the node's private keys", dir, mode),
			fmt.Sprintf("`chmod go-w %s`", howto.Here().Quote(dir)))
	}
	switch err := unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK); {
	case isReadOnly(err):
		return readOnly(fmt.Errorf("data directory %s is on a volume that is mounted read-only: %w", dir, err))
	case err != nil:
		return diag.FailPermanently(diag.CodeAccess,
			fmt.Errorf("data directory %s cannot be written by %s: %w", dir, userName(os.Geteuid()), err),
			fmt.Sprintf("`chmod u+rwx %s`", howto.Here().Quote(dir)))
	}
	// Files that a run as another user left would fail later and obscurely.
	for _, name := range []string{stampName, lockName, identityName, storeName, credsName, resolverName, tlsName} {
		path := filepath.Join(dir, name)
		fi, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return explain("open", path, err)
		}
		if err := checkOwner(dir, path, fi); err != nil {
			return err
		}
	}
	return nil
}

func checkOwner(dir, what string, fi fs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("read the owner of %s: %w", what, errors.ErrUnsupported)
	}
	owner, me := int(st.Uid), os.Geteuid()
	if owner == me {
		return nil
	}
	give := fmt.Sprintf("`sudo chown -R %s %s`", chownArgument(me), howto.Here().Quote(dir))
	hint := fmt.Sprintf("give it to this user: %s, or run as its owner: `sudo -u %s holdfast run`", give, sudoArgument(owner))
	switch {
	case me == 0:
		hint = fmt.Sprintf("run as its owner: `sudo -u %s holdfast run`, or `systemctl start holdfast`; "+
			"root would leave files that the owner cannot open", sudoArgument(owner))
	case owner == 0:
		hint = "give it to this user: " + give
	}
	return diag.FailPermanently(diag.CodeAccess,
		fmt.Errorf("%s belongs to %s, and this process runs as %s", what, userName(owner), userName(me)), hint)
}

func accessHint(path string) string {
	me := os.Geteuid()
	return fmt.Sprintf("`namei -l %s` shows where %s is stopped; `sudo chown -R %s DIRECTORY` gives a directory to that user",
		howto.Here().Quote(path), userName(me), chownArgument(me))
}

func createHint(path string) string {
	owner := strings.TrimSuffix(chownArgument(os.Geteuid()), ":")
	return fmt.Sprintf("`sudo install -d -m 0700 -o %s %s`", owner, howto.Here().Quote(path))
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return fmt.Sprintf("%s (uid %d)", u.Username, uid)
	}
	return fmt.Sprintf("uid %d", uid)
}

// chownArgument names the user and, by the colon, its login group.
func chownArgument(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username + ":"
	}
	return strconv.Itoa(uid)
}

func sudoArgument(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("'#%d'", uid)
}
