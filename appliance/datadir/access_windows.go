// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"fmt"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// checkAccess refuses a directory that others can write: it holds the node's private
// keys. An owner says little on Windows, so it is the access list that counts.
func checkAccess(path string) error {
	who, err := acl.Writers(path)
	if err != nil {
		return explain("open data directory", path, err)
	}
	if len(who) == 0 {
		return nil
	}
	return diag.FailPermanently(diag.CodeAccess,
		fmt.Errorf("data directory %s can be written by %s, and it holds the node's private keys", path, strings.Join(who, ", ")),
		acl.Closing(path, true, acl.Full, acl.Keepers()...))
}

// makePrivate makes a directory for this user, administrators and the system: a mode means
// nothing here, and the directory above may be open to everybody.
func makePrivate(path string) error {
	me, err := acl.Me()
	if err != nil {
		return err
	}
	return acl.Mkdir(path, acl.Own(me))
}

func accessHint(path string) string {
	return fmt.Sprintf("give the account that runs Holdfast full access: `icacls \"%s\"` shows who has it", path)
}

func createHint(path string) string {
	grants := ""
	for _, k := range acl.Keepers() {
		grants += fmt.Sprintf(` "%s:(OI)(CI)F"`, k)
	}
	return fmt.Sprintf("create it from an elevated prompt: `mkdir \"%[1]s\"`, then `icacls \"%[1]s\" /inheritance:r /grant:r \"*S-1-5-18:(OI)(CI)F\" \"*S-1-5-32-544:(OI)(CI)F\"%[2]s`", path, grants)
}
