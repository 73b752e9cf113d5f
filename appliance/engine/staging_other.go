// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package engine

import "errors"

func memoryDir(string) (string, error) {
	return "", errors.New("this system has no file system in memory that everybody has")
}

func memoryDirs(string) []string { return nil }
