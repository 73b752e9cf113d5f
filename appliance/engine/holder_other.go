// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package engine

// portHolder is known on Linux only.
func portHolder(_, _ string) string { return "" }
