// SPDX-License-Identifier: Apache-2.0

package acl

import (
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Set gives a file or directory an owner, where sddl names one, and its access list;
// what is below takes over what it inherits.
func Set(path, sddl string) error {
	sd, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return fmt.Errorf("read access list %q: %w", sddl, err)
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return fmt.Errorf("read access list %q: %w", sddl, err)
	}
	what := windows.SECURITY_INFORMATION(windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION)
	owner, _, err := sd.Owner()
	if err == nil && owner != nil {
		what |= windows.OWNER_SECURITY_INFORMATION
	} else {
		owner = nil
	}
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, what, owner, nil, dacl, nil); err != nil {
		return &fs.PathError{Op: "set the access list of", Path: path, Err: err}
	}
	return nil
}

// Mkdir makes a directory that has its access list from the first moment: nobody gets
// something into it before it is closed.
func Mkdir(path, sddl string) error {
	sd, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return fmt.Errorf("read access list %q: %w", sddl, err)
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	sa := windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(sa))
	if err := windows.CreateDirectory(name, &sa); err != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// Create makes a new file for this user, administrators and the system: the directory may
// be open to everybody.
func Create(path string) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &fs.PathError{Op: "open", Path: path, Err: err} }
	me, err := Me()
	if err != nil {
		return nil, err
	}
	sd, err := windows.SecurityDescriptorFromString(Own(me))
	if err != nil {
		return fail(err)
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return fail(err)
	}
	sa := windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(sa))
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE, windows.FILE_SHARE_READ, &sa, windows.CREATE_NEW, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return fail(err)
	}
	return os.NewFile(uintptr(h), path), nil
}
