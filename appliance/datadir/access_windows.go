// SPDX-License-Identifier: Apache-2.0

package datadir

import "fmt"

// checkAccess leaves access to the directory's ACL, which the installer sets:
// an owner says little on Windows.
func checkAccess(string) error { return nil }

func accessHint(path string) string {
	return fmt.Sprintf("give the account that runs Holdfast full access: `icacls \"%s\"` shows who has it", path)
}

func createHint(path string) string {
	return fmt.Sprintf("create it from an elevated prompt: `mkdir \"%s\"`", path)
}
