// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "errors"

// forget can't be done here: what is measured would be memory.
func forget([]string) error { return errors.New("empty the page cache: on Linux only") }
