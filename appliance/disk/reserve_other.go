// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package disk

import "os"

func reserve(f *os.File, size int64) error { return fill(f, size) }
