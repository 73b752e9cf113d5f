// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package service

// monotonicUsec is for systemd, which is elsewhere.
func monotonicUsec() int64 { return 0 }
