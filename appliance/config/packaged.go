// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package config

// PackagedFile is the configuration of an installed service.
func PackagedFile() string { return "/etc/holdfast/holdfast.yaml" }

// PackagedDataDir is where an installed service has its messages, unless its file
// says otherwise.
func PackagedDataDir() string { return "/var/lib/holdfast" }

// platformDefault is the default of a key on this system.
func platformDefault(tag string) string { return tag }
