// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tune

import (
	"errors"
	"os"
)

func writable(string) bool { return false }

func isReadOnly(error) bool { return false }

func owned(string) error { return nil }

func (in Input) lock() (unlock func() error, err error) { return nil, errors.ErrUnsupported }

func forget(*os.File) error { return nil }

func begin(*os.File) error { return nil }
