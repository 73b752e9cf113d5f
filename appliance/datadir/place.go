// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// checkPlace refuses a place where messages would not last, or returns why it
// is one when it was allowed. The path need not exist.
func checkPlace(path string, allowUnsafe bool) (warnings []string, err error) {
	hazards, warnings, err := Place(path)
	if err != nil {
		return nil, err
	}
	for i, w := range warnings {
		warnings[i] = fmt.Sprintf("data directory %s: %s", path, w)
	}
	if len(hazards) == 0 {
		return warnings, nil
	}
	unsafe := fmt.Sprintf("data directory %s can lose messages: %s", path, strings.Join(hazards, "; "))
	if allowUnsafe {
		return append(warnings, unsafe), nil
	}
	return nil, diag.FailPermanently(diag.CodeFileSystem, errors.New(unsafe),
		"set node.data_dir to a directory on a local disk; to try something out, start with --allow-unsafe-storage")
}

// hazardOf says why a file system of this type loses messages, or nothing.
func hazardOf(fsType string) string {
	switch fsType {
	case "tmpfs", "ramfs", "rootfs", "devtmpfs", "ramdisk":
		return fmt.Sprintf("its file system is %s, which is memory and empty after a power cut", fsType)
	case "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "9p", "afs", "ceph", "coda", "lustre",
		"gpfs", "beegfs", "glusterfs", "orangefs", "pvfs2", "afpfs", "webdav", "network",
		"fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.davfs",
		"fuse.davfs2", "fuse.juicefs", "fuse.gcsfuse", "fuse.blobfuse", "fuse.blobfuse2", "fuse.goofys",
		"fuse.mount-s3", "fuse.mfs", "fuse.curlftpfs", "fuse.vmhgfs-fuse":
		return fmt.Sprintf("its file system is %s, over a network, where fsync and locks do not hold", fsType)
	}
	return ""
}

// cautionOf says what to know about a file system that may be all right.
func cautionOf(fsType string) string {
	switch {
	case hazardOf(fsType) != "":
		return ""
	case fsType == "overlay", fsType == "aufs", fsType == "fuse.fuse-overlayfs":
		return fmt.Sprintf("its file system is %s: in a container it is gone with the container, so mount a volume there", fsType)
	case fsType == "fuse", strings.HasPrefix(fsType, "fuse."):
		return fmt.Sprintf("its file system is %s, which may not pass fsync on to the disk", fsType)
	}
	return ""
}

// tempDirAbove returns the temporary directory that path is in, or nothing.
func tempDirAbove(path string) string {
	temps := []string{os.TempDir()}
	if runtime.GOOS != "windows" {
		temps = append(temps, "/tmp", "/var/tmp", "/dev/shm")
	}
	real := resolve(path)
	for _, temp := range temps {
		rel, err := filepath.Rel(resolve(temp), real)
		// A TMPDIR of "/" is a mistake that must not refuse every directory.
		if err != nil || filepath.Dir(resolve(temp)) == resolve(temp) {
			continue
		}
		if rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return temp
		}
	}
	return ""
}

// resolve follows the symbolic links of the part of path that exists.
func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolve(parent), filepath.Base(path))
}
