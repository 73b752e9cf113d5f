// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package loopdisk

import (
	"context"
	"errors"
	"os/exec"
)

var errElsewhere = errors.New("disks in image files are for Linux only")

// Disk is there for the compiler.
type Disk struct{ Image, At string }

// PowerSwitch is there for the compiler.
type PowerSwitch struct{}

// Missing says that this is not Linux.
func Missing([]string) []string { return []string{"Linux"} }

// New always fails.
func New(context.Context, string, string, int64) (*Disk, error) { return nil, errElsewhere }

// Mount always fails.
func (d *Disk) Mount(context.Context) error { return errElsewhere }

// Unmount always fails.
func (d *Disk) Unmount(context.Context) error { return errElsewhere }

// PowerSwitch always fails.
func (d *Disk) PowerSwitch() (*PowerSwitch, error) { return nil, errElsewhere }

// Keep always fails.
func (d *Disk) Keep(context.Context, string) error { return errElsewhere }

// Cut always fails.
func (s *PowerSwitch) Cut() error { return errElsewhere }

// Close always fails.
func (s *PowerSwitch) Close() error { return errElsewhere }

// Apart does nothing.
func Apart(*exec.Cmd) {}

// MountMemory always fails.
func MountMemory(context.Context, string) error { return errElsewhere }

// ForgetMemory always fails.
func ForgetMemory(context.Context, string) error { return errElsewhere }
