// SPDX-License-Identifier: Apache-2.0

package acl

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// What a stranger must not have. Attributes and extended attributes change nothing of
// what is in a file.
const (
	changes = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | windows.DELETE | windows.WRITE_DAC | windows.WRITE_OWNER |
		windows.GENERIC_WRITE | windows.GENERIC_ALL | deleteChild
	reads = windows.FILE_READ_DATA | windows.GENERIC_READ | windows.GENERIC_ALL

	deleteChild = 0x40 // FILE_DELETE_CHILD
)

// Writers names those who may change a file or directory and are neither
// administrators, the system, the service, nor this user.
func Writers(path string) ([]string, error) { return strangers(path, changes) }

// Readers names those who may read it, of the same.
func Readers(path string) ([]string, error) { return strangers(path, reads) }

func strangers(path string, rights windows.ACCESS_MASK) ([]string, error) {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return nil, &fs.PathError{Op: "read the access list of", Path: path, Err: err}
	}
	own, err := Me()
	if err != nil {
		return nil, err
	}
	var found []string
	add := func(sid *windows.SID) {
		if s := sid.String(); !trusted(s, own) && !slices.Contains(found, nameOf(sid)) {
			found = append(found, nameOf(sid))
		}
	}
	// An owner may change the list whatever it says.
	if owner, _, err := sd.Owner(); err == nil && owner != nil {
		add(owner)
	}
	dacl, _, err := sd.DACL()
	if err != nil || dacl == nil {
		return append(found, "everybody (there is no access list)"), nil
	}
	for i := range dacl.AceCount {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(dacl, uint32(i), &ace); err != nil {
			return nil, &fs.PathError{Op: "read the access list of", Path: path, Err: err}
		}
		if ace.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE || ace.Header.AceFlags&windows.INHERIT_ONLY_ACE != 0 || ace.Mask&rights == 0 {
			continue
		}
		add((*windows.SID)(unsafe.Pointer(&ace.SidStart)))
	}
	return found, nil
}

// trusted are those who can do anything anyway.
func trusted(sid, own string) bool {
	switch sid {
	case "S-1-5-18", "S-1-5-32-544", // the system, administrators
		"S-1-3-0", "S-1-3-4", // creator owner, owner rights: the owner is looked at by itself
		own, ServiceSID(Service), ServiceSID("TrustedInstaller"):
		return true
	}
	// Domain and enterprise administrators.
	return strings.HasPrefix(sid, "S-1-5-21-") && (strings.HasSuffix(sid, "-512") || strings.HasSuffix(sid, "-519"))
}

func nameOf(sid *windows.SID) string {
	account, domain, _, err := sid.LookupAccount("")
	switch {
	case err != nil || account == "":
		return sid.String()
	case domain == "":
		return account
	}
	return domain + `\` + account
}

// Me is the SID of the user of this process.
func Me() (string, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", fmt.Errorf("look who this is: %w", err)
	}
	return user.User.Sid.String(), nil
}

// GroupSID is that of the local group that may use the admin pipe; "" where there is
// none of that name.
func GroupSID(name string) string {
	sid, _, kind, err := windows.LookupSID("", name)
	if err != nil || kind != windows.SidTypeAlias && kind != windows.SidTypeGroup {
		return ""
	}
	return sid.String()
}

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

// Exposed looks at a file and the directory that it is in: who may write there may
// put another file in its place.
func Exposed(path string) (where string, who []string, err error) {
	for _, p := range []string{path, filepath.Dir(path)} {
		who, err := Writers(p)
		if err != nil || len(who) > 0 {
			return p, who, err
		}
	}
	return "", nil, nil
}
