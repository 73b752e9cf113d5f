// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package netlab

import (
	"context"
	"errors"
	"net"
	"os/exec"
)

var errElsewhere = errors.New("networks of their own are for Linux only")

// Host is there for the compiler.
type Host struct{ Addr string }

// Missing says that this is not Linux.
func Missing() []string { return []string{"Linux"} }

// Apart does nothing.
func Apart(*exec.Cmd) {}

// New always fails.
func New(context.Context, int) ([]*Host, error) { return nil, errElsewhere }

// Do always fails.
func (h *Host) Do(func() error) error { return errElsewhere }

// DialContext always fails.
func (h *Host) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, errElsewhere
}

// Dial always fails.
func (h *Host) Dial(string, string) (net.Conn, error) { return nil, errElsewhere }

// Unplug always fails.
func (h *Host) Unplug(context.Context) error { return errElsewhere }

// Drop always fails.
func (h *Host) Drop(context.Context) error { return errElsewhere }

// Deafen always fails.
func (h *Host) Deafen(context.Context, ...int) error { return errElsewhere }

// Heal always fails.
func (h *Host) Heal(context.Context) error { return errElsewhere }
