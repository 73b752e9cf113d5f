// SPDX-License-Identifier: Apache-2.0

package datadir

import "golang.org/x/sys/windows"

func statVolume(path string) (Volume, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return Volume{}, err
	}
	var v Volume
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &v.Free, &v.Total, &free); err != nil {
		return Volume{}, err
	}
	v.Used = v.Total - min(free, v.Total)
	root := make([]uint16, windows.MAX_LONG_PATH)
	if err := windows.GetVolumePathName(p, &root[0], uint32(len(root))); err != nil {
		return Volume{}, err
	}
	switch windows.GetDriveType(&root[0]) {
	case windows.DRIVE_REMOTE:
		v.FSType = "network"
		return v, nil
	case windows.DRIVE_RAMDISK:
		v.FSType = "ramdisk"
		return v, nil
	}
	var flags uint32
	name := make([]uint16, windows.MAX_PATH+1)
	err = windows.GetVolumeInformation(&root[0], nil, 0, nil, nil, &flags, &name[0], uint32(len(name)))
	if err != nil {
		return Volume{}, err
	}
	v.FSType = windows.UTF16ToString(name)
	v.ReadOnly = flags&windows.FILE_READ_ONLY_VOLUME != 0
	return v, nil
}
