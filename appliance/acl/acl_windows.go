// SPDX-License-Identifier: Apache-2.0

package acl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// What a stranger must not have. Attributes and extended attributes change nothing of
// what is in a file.
const (
	changes = replaces | windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | windows.GENERIC_WRITE
	reads   = windows.FILE_READ_DATA | windows.GENERIC_READ | windows.GENERIC_ALL
	// replaces are the rights to put something else in the place of what is below.
	replaces = windows.DELETE | windows.WRITE_DAC | windows.WRITE_OWNER | windows.GENERIC_ALL | deleteChild

	deleteChild = 0x40 // FILE_DELETE_CHILD
)

// Writers names those who may change a file or directory and are neither
// administrators, the system, the service, nor this user.
func Writers(path string) ([]string, error) { return strangers(path, changes) }

// Readers names those who may read it, of the same.
func Readers(path string) ([]string, error) { return strangers(path, reads) }

func strangers(path string, rights windows.ACCESS_MASK) ([]string, error) {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, ownerAndList)
	if err != nil {
		return nil, &fs.PathError{Op: "read the access list of", Path: path, Err: err}
	}
	return strangersOf(path, sd, rights)
}

const ownerAndList = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION

func strangersOf(path string, sd *windows.SECURITY_DESCRIPTOR, rights windows.ACCESS_MASK) ([]string, error) {
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
	dacl, _, _ := sd.DACL() // an error is that there is none
	if dacl == nil {
		return append(found, "everybody (there is no access list)"), nil
	}
	for i := range dacl.AceCount {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(dacl, uint32(i), &ace); err != nil {
			return nil, &fs.PathError{Op: "read the access list of", Path: path, Err: err}
		}
		if grants(ace) && ace.Header.AceFlags&windows.INHERIT_ONLY_ACE == 0 && ace.Mask&rights != 0 {
			add((*windows.SID)(unsafe.Pointer(&ace.SidStart)))
		}
	}
	return found, nil
}

// grants reports whether an entry gives rights; those with a condition may.
func grants(ace *windows.ACCESS_ALLOWED_ACE) bool {
	const conditional = 9 // ACCESS_ALLOWED_CALLBACK_ACE_TYPE
	return ace.Header.AceType == windows.ACCESS_ALLOWED_ACE_TYPE || ace.Header.AceType == conditional
}

// The system and administrators.
const (
	systemSID = "S-1-5-18"
	adminsSID = "S-1-5-32-544"
)

// trusted are those who can do anything anyway.
func trusted(sid, own string) bool {
	switch sid {
	case systemSID, adminsSID,
		"S-1-3-0", "S-1-3-4", // creator owner, owner rights: the owner is looked at by itself
		own, ServiceSID(Service), ServiceSID("TrustedInstaller"):
		return true
	}
	// The administrator, and those of the domain and the enterprise.
	return strings.HasPrefix(sid, "S-1-5-21-") && (strings.HasSuffix(sid, "-500") || strings.HasSuffix(sid, "-512") || strings.HasSuffix(sid, "-519"))
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

// Keepers are those who keep their rights where others are shut out, as icacls takes
// them: the service, where there is one, and this user.
func Keepers() []string {
	var all []string
	if _, _, _, err := windows.LookupSID("", Account); err == nil {
		all = append(all, Account)
	}
	if me, err := Me(); err == nil && me != systemSID && (len(all) == 0 || me != ServiceSID(Service)) {
		all = append(all, "*"+me)
	}
	return all
}

// GroupSID is that of the local group that may use the admin pipe; "" where there is
// none of that name.
func GroupSID(name string) string {
	computer, err := windows.ComputerName()
	if err != nil {
		return ""
	}
	sid, _, kind, err := windows.LookupSID("", computer+`\`+name) // and none of the domain
	if err != nil || kind != windows.SidTypeAlias && kind != windows.SidTypeGroup {
		return ""
	}
	return sid.String()
}

// PipeOwner looks at who has made the pipe of a handle. stranger is their name when it is
// none of the system, administrators, the service and this user: anybody can make a pipe
// of a name that is free.
func PipeOwner(pipe uintptr) (stranger string, err error) {
	sd, err := windows.GetSecurityInfo(windows.Handle(pipe), windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return "", fmt.Errorf("look who has made the pipe: %w", err)
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return "", fmt.Errorf("look who has made the pipe: %w", err)
	}
	if owner == nil {
		return "nobody", nil
	}
	me, err := Me()
	if err != nil {
		return "", err
	}
	switch owner.String() {
	case systemSID, adminsSID, ServiceSID(Service), me:
		return "", nil
	}
	return nameOf(owner), nil
}

// DirWriters is Writers of a directory, and, where it is a link, of that first: with the
// rights of an installer nothing is done to what somebody else has chosen.
func DirWriters(path string) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, &fs.PathError{Op: "read the access list of", Path: path, Err: err}
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return fail(err)
	}
	h, err := windows.CreateFile(name, windows.READ_CONTROL|windows.FILE_READ_ATTRIBUTES, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &info); err != nil {
		return fail(err)
	}
	if info.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY == 0 {
		return fail(windows.ERROR_DIRECTORY)
	}
	sd, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT, ownerAndList)
	if err != nil {
		return fail(err)
	}
	who, err := strangersOf(path, sd, changes)
	if err != nil || len(who) > 0 || info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT == 0 {
		return who, err
	}
	return Writers(path)
}

// Exposed looks at a file or directory and those above it: who may change it, add to the
// directory of a file, or move one of those above away, may put another in its place. To
// add to what a directory is in does not count: ordinary users may do that to ProgramData.
func Exposed(path string) (where string, who []string, err error) {
	rights := windows.ACCESS_MASK(changes)
	isDir := false
	if info, err := os.Stat(path); err == nil {
		isDir = info.IsDir()
	}
	for at := path; ; {
		above := filepath.Dir(at)
		if above == at {
			rights &^= windows.DELETE // nobody deletes a volume
		}
		who, err := strangers(at, rights)
		switch {
		case rights&windows.FILE_WRITE_DATA == 0 && errors.Is(err, fs.ErrPermission):
			return "", nil, nil // not for this user to see
		case err != nil || len(who) > 0:
			return at, who, err
		case above == at:
			return "", nil, nil
		}
		if isDir || at != path {
			rights = replaces
		}
		at = above
	}
}
