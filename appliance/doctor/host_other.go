// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !windows

package doctor

import (
	"context"
	"errors"
	"math"
)

func clockSynced() (bool, error) { return false, errors.ErrUnsupported }

func ownFileLimit() (uint64, error) { return math.MaxUint64, nil }

func (m *machine) lockHolder() int { return 0 }

func inodes(string) (total, free uint64, err error) { return 0, 0, nil }

func lookAtFileSystem(context.Context, *machine) report { return skip("on Linux only") }
func lookAtWriteCache(context.Context, *machine) report { return skip("on Linux only") }
func lookAtAccess(context.Context, *machine) report     { return skip("on Linux only") }

func (m *machine) owner() account { return m.me() }
