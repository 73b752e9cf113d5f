// SPDX-License-Identifier: Apache-2.0

// Package systemd holds the unit file, which README.md explains line by line,
// and what belongs to it: the user it runs as, and that it starts at boot.
// The packages and the service command install them as they are.
package systemd

import _ "embed"

// Unit is the text of holdfast.service.
//
//go:embed holdfast.service
var Unit string

// Tune is the text of holdfast-tune.service.
//
//go:embed holdfast-tune.service
var Tune string

// Sysusers is the text of sysusers.d/holdfast.conf (sysusers.d(5)).
//
//go:embed holdfast.sysusers
var Sysusers string

// Preset is the text of system-preset/80-holdfast.preset (systemd.preset(5)).
//
//go:embed holdfast.preset
var Preset string
