// SPDX-License-Identifier: Apache-2.0

package datadir

import "golang.org/x/sys/unix"

func statVolume(path string) (Volume, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Volume{}, err
	}
	block := uint64(st.Bsize)
	v := Volume{
		Total:       st.Blocks * block,
		Free:        st.Bavail * block,
		Used:        (st.Blocks - st.Bfree) * block,
		FSType:      unix.ByteSliceToString(st.Fstypename[:]),
		ReadOnly:    st.Flags&unix.MNT_RDONLY != 0,
		Inodes:      st.Ffree,
		InodesTotal: st.Files,
	}
	if st.Flags&unix.MNT_LOCAL == 0 && hazardOf(v.FSType) == "" {
		v.FSType = "network"
	}
	return v, nil
}
