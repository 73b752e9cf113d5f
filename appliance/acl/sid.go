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
// with the other SIDs may connect.
func Pipe(own string, others ...string) string {
	sddl := "D:P(A;;GA;;;SY)(A;;GA;;;BA)(A;;GA;;;" + own + ")"
	for _, sid := range others {
		sddl += fmt.Sprintf("(A;;%#x;;;%s)", PipeClient, sid)
	}
	return sddl
}
