// SPDX-License-Identifier: Apache-2.0

// Package systemd holds the unit file, which README.md explains line by line.
// The packages and the service command install it as it is.
package systemd

import _ "embed"

// Unit is the text of holdfast.service.
//
//go:embed holdfast.service
var Unit string
