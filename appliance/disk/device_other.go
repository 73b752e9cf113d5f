// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package disk

import "errors"

// MountOf knows no mounts here.
func (System) MountOf(string) (Mount, error) { return Mount{}, errors.ErrUnsupported }

// Below knows no devices here.
func (System) Below(Mount) Stack { return Stack{} }

func (Device) flushes() int64 { return -1 }
