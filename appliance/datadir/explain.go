// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// explain turns an error of the operating system into one that names the path
// once and, where a person has to act, carries a code and a hint.
func explain(doing, path string, err error) error {
	cause := bareError(err)
	wrapped := fmt.Errorf("%s %s: %w", doing, path, cause)
	switch {
	case isDiskFull(cause):
		return diskFull(doing, path, cause)
	case isReadOnly(cause):
		return readOnly(wrapped)
	case errors.Is(cause, fs.ErrPermission):
		return diag.FailPermanently(diag.CodeAccess, wrapped, accessHint(path))
	case errors.Is(cause, syscall.ENOTDIR):
		return diag.FailPermanently(diag.CodeAccess, wrapped, "set node.data_dir to a directory; there is a file with that name")
	}
	return wrapped
}

func diskFull(doing, path string, cause error) error {
	free := "free space unknown"
	if v, err := VolumeOf(path); err == nil {
		free = fmt.Sprintf("%d bytes available", v.Free)
	}
	return diag.Fail(diag.CodeDiskFull, fmt.Errorf("%s %s: %w (%s)", doing, path, cause, free),
		"free space on that volume or make it larger; when bytes are left, "+fullOfWhat)
}

func readOnly(err error) error {
	return diag.FailPermanently(diag.CodeAccess, err,
		"make the volume writable; when it was, "+howto.Here().SystemLog()+" says which disk error made it read-only")
}

// bareError strips the operation and the path that package os puts around its
// errors: explain names both in the words of this package.
func bareError(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	var call *os.SyscallError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	case errors.As(err, &call):
		return call.Err
	}
	return err
}
