// SPDX-License-Identifier: Apache-2.0

package acl

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Service is the name of the Windows service, and what its account is made of.
const Service = "Holdfast"

// Account is the virtual account of the service: Windows makes it and keeps its
// password, and it may do nothing that it is not granted.
const Account = `NT SERVICE\` + Service

// ServiceSID is the identifier of a service's account. Windows derives it from the
// name, so that it is known before there is a service.
func ServiceSID(name string) string {
	var text []byte
	for _, unit := range utf16.Encode([]rune(strings.ToUpper(name))) {
		text = binary.LittleEndian.AppendUint16(text, unit)
	}
	sum := sha1.Sum(text) // Windows' choice
	sid := "S-1-5-80"
	for part := sum[:]; len(part) > 0; part = part[4:] {
		sid += fmt.Sprintf("-%d", binary.LittleEndian.Uint32(part))
	}
	return sid
}

// The access rights that are granted, in the words of SDDL.
const (
	full = "FA"
	read = "0x1200a9" // read, execute, list
)

// Right is what icacls grants.
type Right string

// The rights in words of icacls.
const (
	Read Right = "R"
	Full Right = "F"
)

// Commands close a file or directory to all but the system, administrators and keepers,
// in both shells of Windows: whoever owns it, and whatever its list has of its own, which
// no /inheritance:r takes away.
func Commands(path string, dir bool, right Right, keepers ...string) []string {
	below := ""
	if dir {
		below = "(OI)(CI)"
	}
	grants := fmt.Sprintf(`"*S-1-5-18:%[1]sF" "*S-1-5-32-544:%[1]sF"`, below)
	for _, k := range keepers {
		grants += fmt.Sprintf(` "%s:%s%s"`, k, below, right)
	}
	icacls := `icacls "` + path + `" `
	return []string{icacls + "/setowner *S-1-5-32-544", icacls + "/reset", icacls + "/inheritance:r /grant:r " + grants}
}

// Closing is Commands in a sentence.
func Closing(path string, dir bool, right Right, keepers ...string) string {
	return "from an elevated prompt `" + strings.Join(Commands(path, dir, right, keepers...), "`, then `") + "`"
}

// grant is one line of an access list that files and directories below take over.
func grant(rights, sid string) string { return "(A;OICI;" + rights + ";;;" + sid + ")" }

// admins are the system and administrators, without what is taken over from above.
func admins() string { return "O:BAD:PAI" + grant(full, "SY") + grant(full, "BA") }

// Config is for the directory of the configuration: the service reads it.
func Config() string { return admins() + grant(read, ServiceSID(Service)) }

// State is for directories that the service writes: data and logs.
func State() string { return admins() + grant(full, ServiceSID(Service)) }

// Own is for a directory of one user, by its SID.
func Own(sid string) string {
	return "D:PAI" + grant(full, "SY") + grant(full, "BA") + grant(full, sid)
}

// PipeClient is what a client of the admin pipe needs: to read and write. FILE_APPEND_DATA
// is not in it, for on a pipe it is the right to be its server, too.
const PipeClient = 0x12019b

// Pipe is for the admin pipe: the system, administrators and its own user have it; those
// with the other SIDs may connect. Its owner is what clients go by, and is never left to
// what a token has as its default.
func Pipe(own string, others ...string) string {
	sddl := "O:" + own + "D:P(A;;GA;;;SY)(A;;GA;;;BA)(A;;GA;;;" + own + ")"
	for _, sid := range others {
		sddl += fmt.Sprintf("(A;;%#x;;;%s)", PipeClient, sid)
	}
	return sddl
}
