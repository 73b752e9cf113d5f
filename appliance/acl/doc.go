// SPDX-License-Identifier: Apache-2.0

// Package acl is what Windows has in place of file modes: who may read and change a
// file, a directory or a pipe, and how that is kept to administrators, the system and
// the service. On other systems it knows nothing and does nothing.
//
// The service, the data directory, the admin pipe and the doctor ask it.
package acl
