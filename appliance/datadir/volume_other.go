// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin && !windows

package datadir

import "errors"

func statVolume(string) (Volume, error) { return Volume{}, errors.ErrUnsupported }
