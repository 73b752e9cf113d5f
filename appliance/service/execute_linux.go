// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	kardianos "github.com/kardianos/service"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// execute does the steps in order and tells what was done, also when one fails: each
// is complete or did not happen, and the next try goes on from there.
func execute(ctx context.Context, steps []step) (done []string, err error) {
	done = []string{}
	for _, s := range steps {
		if err := s.do(ctx); err != nil {
			if errors.Is(err, syscall.ENOSPC) {
				return done, diag.Fail(diag.CodeDiskFull, err, "free space, then run this again: what is there is complete, and the rest follows")
			}
			return done, err
		}
		if s.said != "" {
			done = append(done, s.said)
		}
	}
	return done, nil
}

func (s step) do(ctx context.Context) error {
	switch s.kind {
	case runCommand:
		return command(ctx, s.text, s.args...)
	case makeDir:
		if err := os.MkdirAll(s.path, s.mode); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		return s.own(s.path)
	case writeFile:
		return s.write()
	case letRead:
		return s.own(s.path)
	case makeLink:
		if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		return os.Symlink(s.text, s.path)
	case remove:
		return os.Remove(s.path)
	case register:
		return registerUnit(ctx, s.text)
	case unregister:
		return unregisterUnit(ctx)
	case start:
		return control(ctx, "start", kardianos.Service.Start)
	case stop:
		return control(ctx, "stop", kardianos.Service.Stop)
	}
	return fmt.Errorf("do %s: no such step", s.kind)
}

// own gives a file its mode, and the service's group when it belongs to it. The
// group's number is known only now: an earlier step may have made it.
func (s step) own(path string) error {
	if s.group {
		_, gid := ids()
		if gid < 0 {
			return diag.Fail(diag.CodeService, fmt.Errorf("give %s to the group %s: there is no such group", s.path, name), "groupadd --system "+name)
		}
		if err := os.Chown(path, -1, gid); err != nil {
			return fmt.Errorf("give %s to the group %s: %w", s.path, name, err)
		}
	}
	if err := os.Chmod(path, s.mode); err != nil {
		return fmt.Errorf("change the mode of %s: %w", s.path, err)
	}
	return nil
}

// write replaces a file as a whole.
func (s step) write() error {
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(s.path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	_, err = f.WriteString(s.text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = s.own(f.Name())
	}
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", s.path, err), os.Remove(f.Name()))
	}
	return nil
}

// command runs a program. What it prints is only of interest when it fails.
func command(ctx context.Context, stdin string, args ...string) error {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stdin = strings.NewReader(stdin)
	c.Env = plainEnvironment()
	out, err := c.CombinedOutput()
	if err == nil {
		return nil
	}
	if text := bytes.TrimSpace(out); len(text) > 0 {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return diag.Fail(diag.CodeService, fmt.Errorf("run %s: %w", strings.Join(args, " "), err), "correct that, then run this again")
}

// handle is the service in the hands of the library that knows service managers. Our
// unit is its template; it has no template's marks, and what arrived is compared.
func handle(unit string) (kardianos.Service, error) {
	for _, system := range kardianos.AvailableSystems() {
		// By name: it would take another init for the system where it does not
		// recognise a container's.
		if system.String() == "linux-systemd" {
			return system.New(nil, &kardianos.Config{
				Name: name, Executable: packagedBinary, // not used: the unit names its own
				Option: kardianos.KeyValue{"SystemdScript": unit},
			})
		}
	}
	return nil, errors.New("manage the service: the service library knows no systemd")
}

// registerUnit writes the unit, enables it and makes systemd read it.
func registerUnit(ctx context.Context, unit string) error {
	h, err := handle(unit)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(ownUnit), 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	failed := h.Install()
	got, err := os.ReadFile(ownUnit)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("write the unit: %w", err)
	case string(got) != unit:
		// A part of a unit would be in the way of the next try.
		_ = os.Remove(ownUnit)
		return fmt.Errorf("write %s: %w", ownUnit, orElse(failed, errors.New("what is there is not what was written")))
	case failed != nil:
		return systemctlFailed(ctx, "enable", failed)
	}
	return os.Chmod(ownUnit, 0o644)
}

func unregisterUnit(ctx context.Context) error {
	h, err := handle("")
	if err != nil {
		return err
	}
	if err := h.Uninstall(); err != nil {
		return systemctlFailed(ctx, "disable", err)
	}
	// A failed unit would be listed on, without a file. It is not an error where none is.
	_ = command(ctx, "", "systemctl", "reset-failed", unitName)
	return nil
}

// control starts, stops or restarts the service, and waits for it.
func control(ctx context.Context, verb string, do func(kardianos.Service) error) error {
	h, err := handle("")
	if err != nil {
		return err
	}
	if err := do(h); err != nil {
		return systemctlFailed(ctx, verb, err)
	}
	return nil
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
