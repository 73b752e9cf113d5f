// SPDX-License-Identifier: Apache-2.0

package datadir

// OwnLike has nothing to do here: files have the access of their directory.
func OwnLike(string, string) error { return nil }
