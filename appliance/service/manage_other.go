// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !windows

package service

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Install is not in this version.
func Install(context.Context, Setup) (Outcome, error) { return Outcome{}, notYet() }

// Uninstall is not in this version.
func Uninstall(context.Context, string) (Outcome, error) { return Outcome{}, notYet() }

// Start is not in this version.
func Start(context.Context) (State, error) { return State{}, notYet() }

// Stop is not in this version.
func Stop(context.Context) (State, error) { return State{}, notYet() }

// Restart is not in this version.
func Restart(context.Context) (State, error) { return State{}, notYet() }

// Status is not in this version.
func Status(context.Context) (State, error) { return State{}, notYet() }

// TuneAtBoot is not in this version.
func TuneAtBoot(context.Context, string, bool) ([]string, error) { return nil, notYet() }

// Environment is empty: there is no service.
func Environment() []string { return nil }

// InstalledConfig is empty: there is no service.
func InstalledConfig() string { return "" }

func notYet() error {
	system := map[string]string{"windows": "Windows", "darwin": "macOS"}[runtime.GOOS]
	if system == "" {
		system = runtime.GOOS
	}
	return diag.Fail(diag.CodeNoSystemd, fmt.Errorf("manage the service: %w", errors.New("not yet on "+system)),
		"run `holdfast run --config FILE` in the foreground")
}
