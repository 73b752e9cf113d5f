// SPDX-License-Identifier: Apache-2.0

package service

import "time"

// Setup is what the service is to run.
type Setup struct {
	Binary string // absolute, without symbolic links
	Config string // absolute
	// Starter is written where the packages have the configuration, when nothing is there.
	Starter []byte
	// Check looks at a configuration that is there, before anything is changed.
	Check   func() error
	NoStart bool
}

// Outcome is what an install or uninstall did.
type Outcome struct {
	Outcome string   `json:"outcome"` // installed, updated, already installed, removed, not installed
	Done    []string `json:"done"`    // in order; never null
	Notes   []string `json:"notes"`   // what a person should know besides; never null
}

// The states of the service.
const (
	StateRunning      = "running"
	StateStarting     = "starting"
	StateReloading    = "reloading"
	StateStopping     = "stopping"
	StateStopped      = "stopped"
	StateFailed       = "failed"
	StateNotInstalled = "not installed"
	StateNoSystemd    = "no systemd"
)

// State is how the service is, in the eyes of the service manager.
type State struct {
	State string `json:"state"`
	// Status is the last line that the node told of itself.
	Status  string     `json:"status,omitempty"`
	PID     int        `json:"pid,omitempty"`
	Since   *time.Time `json:"since,omitempty"` // of the state
	Enabled bool       `json:"enabled"`         // starts at boot
	Unit    string     `json:"unit,omitempty"`  // the file in force
	// Shadows is the package's unit that Unit comes before.
	Shadows string   `json:"shadows,omitempty"`
	DropIns []string `json:"drop_ins,omitempty"`
	// Exit is the exit code of the last process, when that was not its own stop.
	Exit int `json:"exit_code,omitempty"`
	// Signal is what ended the last process; Exit is 0 then.
	Signal   int      `json:"signal,omitempty"`
	Restarts int      `json:"restarts,omitempty"` // by the service manager, since the last start by hand
	Warnings []string `json:"warnings,omitempty"`
}
