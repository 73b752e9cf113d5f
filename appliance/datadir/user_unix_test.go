// SPDX-License-Identifier: Apache-2.0

//go:build unix

package datadir

import "syscall"

// becomeUser changes the user of this process for good.
func becomeUser(uid int) error {
	if uid == 0 {
		return nil
	}
	for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)} {
		if err != nil {
			return err
		}
	}
	return nil
}
