// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func statVolume(path string) (Volume, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statfs(path, &st)
	}
	if err != nil {
		return Volume{}, err
	}
	block := uint64(st.Frsize)
	if block == 0 {
		block = uint64(st.Bsize)
	}
	return Volume{
		Total:       st.Blocks * block,
		Free:        st.Bavail * block,
		Used:        (st.Blocks - st.Bfree) * block,
		FSType:      fsTypeOf(path, uint32(st.Type)),
		ReadOnly:    st.Flags&unix.ST_RDONLY != 0,
		Inodes:      st.Ffree,
		InodesTotal: st.Files,
	}, nil
}

// fsTypeOf believes the kernel's number where it says enough, because the list of
// mounts can be hidden; FUSE has one number for all, and ext2 to ext4 share one.
func fsTypeOf(path string, magic uint32) string {
	switch magic {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.CIFS_SUPER_MAGIC:
		return "cifs"
	case unix.SMB2_SUPER_MAGIC:
		return "smb2"
	case unix.SMB_SUPER_MAGIC:
		return "smbfs"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.CEPH_SUPER_MAGIC:
		return "ceph"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "afs"
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil {
		if name := fsTypeIn(string(mounts), resolve(path)); name != "" {
			return name
		}
	}
	if magic == unix.FUSE_SUPER_MAGIC {
		return "fuse"
	}
	return fmt.Sprintf("0x%x", magic)
}

// fsTypeIn finds the mount with the longest path above path; of several on the
// same path the last hides the others.
func fsTypeIn(mountinfo, path string) string {
	name, longest := "", -1
	for line := range strings.Lines(mountinfo) {
		mount, kind, ok := strings.Cut(line, " - ")
		fields, kinds := strings.Fields(mount), strings.Fields(kind)
		if !ok || len(fields) < 5 || len(kinds) < 1 {
			continue
		}
		point := unescape(fields[4])
		if len(point) >= longest && isBelow(path, point) {
			name, longest = kinds[0], len(point)
		}
	}
	return name
}

func isBelow(path, point string) bool {
	return point == "/" || path == point || strings.HasPrefix(path, point+"/")
}

// unescape undoes what the kernel does to the characters that separate fields.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
