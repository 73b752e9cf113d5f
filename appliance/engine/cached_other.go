// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package engine

// forgetCached does nothing here: there is no such hint.
func forgetCached(string) {}
