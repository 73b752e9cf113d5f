// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
	"os/exec"
)

var errElsewhere = errors.New("power can be cut on Linux only")

type disk struct{ image, at string }

type powerSwitch struct{}

func needs([]string) []string { return []string{"Linux"} }

func newDisk(context.Context, string, string, int64) (*disk, error) { return nil, errElsewhere }

func (d *disk) mount(context.Context) error        { return errElsewhere }
func (d *disk) unmount(context.Context) error      { return errElsewhere }
func (d *disk) powerSwitch() (*powerSwitch, error) { return nil, errElsewhere }
func (d *disk) keep(context.Context, string) error { return errElsewhere }
func (s *powerSwitch) cut() error                  { return errElsewhere }
func (s *powerSwitch) close() error                { return errElsewhere }

func apart(*exec.Cmd) {}
func tied(*exec.Cmd)  {}
