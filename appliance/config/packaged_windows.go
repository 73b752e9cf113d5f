// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// PackagedDir is below ProgramData, where services have what is theirs. The
// environment is not asked: it may be anybody's.
func PackagedDir() string {
	data, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		data = `C:\ProgramData`
	}
	return filepath.Join(data, "Holdfast")
}

// PackagedFile is the configuration of an installed service.
func PackagedFile() string { return filepath.Join(PackagedDir(), "holdfast.yaml") }

// PackagedDataDir is where an installed service has its messages, unless its file
// says otherwise.
func PackagedDataDir() string { return filepath.Join(PackagedDir(), "data") }

// platformDefault is the default of a key on this system.
func platformDefault(tag string) string {
	if tag == "/var/lib/holdfast" {
		return PackagedDataDir()
	}
	return tag
}
