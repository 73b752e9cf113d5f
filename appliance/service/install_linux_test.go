// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/systemd"
)

func install(t *testing.T, s Setup, want string) Outcome {
	t.Helper()
	out, err := Install(t.Context(), s)
	if err != nil || out.Outcome != want {
		t.Fatalf("got %q, %v (%s), want %q", out.Outcome, err, diag.Hint(err), want)
	}
	return out
}

func uninstall(t *testing.T, want string) Outcome {
	t.Helper()
	out, err := Uninstall(t.Context(), dataDir)
	if err != nil || out.Outcome != want {
		t.Fatalf("got %q, %v (%s), want %q", out.Outcome, err, diag.Hint(err), want)
	}
	return out
}

func TestServiceFromInstallToUninstall(t *testing.T) {
	if !inRoot(t) {
		return
	}
	stubSystemctl(t)
	install(t, setup(), "installed")
	_, gid := ids()
	if gid < 0 {
		t.Fatal("got no group holdfast, want one")
	}
	wantFile(t, configDir, 0o750, gid)
	wantFile(t, overlays, 0o750, gid)
	wantFile(t, packagedConfig, 0o640, gid)
	wantFile(t, ownUnit, 0o644, 0)
	if diff := cmp.Diff(unitText(setup().Binary, packagedConfig), read(t, ownUnit)); diff != "" {
		t.Errorf("got another unit (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"enable holdfast.service", "daemon-reload", "start holdfast.service"}, calls(t)); diff != "" {
		t.Errorf("got other calls of systemctl (-want +got):\n%s", diff)
	}
	if s, err := Status(t.Context()); err != nil || s.State != StateRunning || s.PID != 812 || !s.Enabled || s.Status != "ready, 1 stream, bootstrap ok" || s.Unit != ownUnit {
		t.Errorf("got %+v, %v, want it running", s, err)
	}

	if out := install(t, setup(), "already installed"); len(out.Done) > 0 {
		t.Errorf("got %q done, want nothing", out.Done)
	}
	if diff := cmp.Diff([]string{""}, calls(t)); diff != "" {
		t.Errorf("got other calls of the second install (-want +got):\n%s", diff)
	}

	if err := os.WriteFile("/opt/holdfast", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	elsewhere := setup()
	elsewhere.Binary = "/opt/holdfast"
	if out := install(t, elsewhere, "updated"); !strings.Contains(strings.Join(out.Notes, "\n"), "holdfast service restart") {
		t.Errorf("got notes %q, want that the old unit is in force until a restart", out.Notes)
	}
	if read(t, oldUnit) != unitText(setup().Binary, packagedConfig) || read(t, ownUnit) != unitText("/opt/holdfast", packagedConfig) {
		t.Error("got other units, want the new one in place and the old one kept")
	}
	if diff := cmp.Diff([]string{"daemon-reload"}, calls(t)); diff != "" {
		t.Errorf("got other calls of an update (-want +got):\n%s", diff)
	}
	wantOrders(t)

	if err := os.MkdirAll(dataDir, 0o755); err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(uninstall(t, "removed").Notes, "\n")
	for _, want := range []string{dataDir, configDir, "userdel holdfast"} {
		if !strings.Contains(notes, want) {
			t.Errorf("got notes %q, want %q in them", notes, want)
		}
	}
	if present(ownUnit) || present(bootLink) || !present(dataDir) || !present(packagedConfig) {
		t.Error("got other files, want the unit gone and the data and the configuration kept")
	}
	if diff := cmp.Diff([]string{"stop holdfast.service", "disable holdfast.service", "daemon-reload", "reset-failed holdfast.service"}, calls(t)); diff != "" {
		t.Errorf("got other calls of an uninstall (-want +got):\n%s", diff)
	}
	uninstall(t, "not installed")
	if _, err := Start(t.Context()); diag.CodeOf(err) != diag.CodeNotInstalled {
		t.Errorf("got %v, want that nothing is installed", err)
	}
}

// wantOrders stops, starts and restarts, also what can't start.
func wantOrders(t *testing.T) {
	t.Helper()
	if s, err := Stop(t.Context()); err != nil || s.State != StateStopped {
		t.Errorf("got %+v, %v, want it stopped", s, err)
	}
	if s, err := Start(t.Context()); err != nil || s.State != StateRunning {
		t.Errorf("got %+v, %v, want it running", s, err)
	}
	if err := os.WriteFile("/broken", []byte("configuration not valid: /etc/holdfast/holdfast.yaml:3:1: x"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Restart(t.Context())
	if diag.CodeOf(err) != diag.CodeService || !strings.Contains(err.Error(), "holdfast.yaml:3:1") || !strings.Contains(diag.Hint(err), "service start") {
		t.Errorf("got %v, %q, want what the node said, and what to do then", err, diag.Hint(err))
	}
	if s, err := Status(t.Context()); err != nil || s.State != StateFailed || s.Exit != permanent {
		t.Errorf("got %+v, %v, want it failed", s, err)
	}
	if err := os.Remove("/broken"); err != nil {
		t.Fatal(err)
	}
	if s, err := Restart(t.Context()); err != nil || s.State != StateRunning {
		t.Errorf("got %+v, %v, want it running", s, err)
	}
	want := []string{"stop holdfast.service", "start holdfast.service", "restart holdfast.service", "restart holdfast.service"}
	if diff := cmp.Diff(want, calls(t)); diff != "" {
		t.Errorf("got other calls (-want +got):\n%s", diff)
	}
}

func TestInstallChecksTheConfigurationFirst(t *testing.T) {
	if !inRoot(t) {
		return
	}
	stubSystemctl(t)
	if err := os.MkdirAll(configDir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packagedConfig, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, broken := setup(), errors.New("broken")
	s.Check = func() error { return broken }
	if _, err := Install(t.Context(), s); !errors.Is(err, broken) {
		t.Errorf("got %v, want the broken configuration refused", err)
	}
	if _, gid := ids(); gid >= 0 || present(ownUnit) {
		t.Error("got something installed, want nothing touched")
	}
	s.Check = func() error { return nil }
	install(t, s, "installed")
	_, gid := ids()
	wantFile(t, packagedConfig, 0o640, gid)
	if got := read(t, packagedConfig); got != "mine" {
		t.Errorf("got %q, want the configuration that was there", got)
	}
}

// TestInstallWithoutARunningSystemd uses the real systemctl and systemd-sysusers, as
// in the making of an image.
func TestInstallWithoutARunningSystemd(t *testing.T) {
	if !inRoot(t) {
		return
	}
	if !present("/usr/bin/systemctl") {
		t.Skip("skipping: needs systemctl")
	}
	out := install(t, setup(), "installed")
	if target, err := os.Readlink(bootLink); err != nil || target != ownUnit {
		t.Errorf("got a link to %q, %v, want %s", target, err, ownUnit)
	}
	if notes := strings.Join(out.Notes, "\n"); !strings.Contains(notes, "booted") || !strings.Contains(notes, "setpriv --reuid holdfast") {
		t.Errorf("got notes %q, want when it starts, and how to run it now", notes)
	}
	if users := read(t, "/etc/passwd"); !strings.Contains(users, ":/var/lib/holdfast:/usr/sbin/nologin\n") {
		t.Errorf("got %q, want the user as the package makes it", users)
	}
	install(t, setup(), "already installed")
	if s, err := Status(t.Context()); err != nil || s.State != StateNoSystemd || !s.Enabled || s.Unit != ownUnit {
		t.Errorf("got %+v, %v, want it installed where systemd does not run", s, err)
	}
	if _, err := Start(t.Context()); diag.CodeOf(err) != diag.CodeNoSystemd {
		t.Errorf("got %v, want that systemd does not run", err)
	}
	uninstall(t, "removed")
	if _, err := os.Lstat(bootLink); err == nil || present(ownUnit) {
		t.Error("got the unit or its link, want both gone")
	}
	install(t, setup(), "installed")
}

func TestInstallWithoutSystemctl(t *testing.T) {
	if !inRoot(t) {
		return
	}
	if err := os.MkdirAll("/tools", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"useradd", "groupadd"} {
		if !present("/usr/sbin/" + tool) {
			t.Skipf("skipping: needs %s", tool)
		}
		if err := os.Symlink("/usr/sbin/"+tool, "/tools/"+tool); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", "/tools")
	if err := os.WriteFile("/proc/1/comm", []byte("init\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(t.Context(), setup()); diag.CodeOf(err) != diag.CodeNoSystemd || !strings.Contains(err.Error(), "SysV init") {
		t.Errorf("got %v, want another init refused", err)
	}
	if err := os.WriteFile("/proc/1/comm", []byte("tini\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	install(t, setup(), "installed")
	if target, err := os.Readlink(bootLink); err != nil || target != ownUnit {
		t.Errorf("got a link to %q, %v, want %s", target, err, ownUnit)
	}
	install(t, setup(), "already installed")
	uninstall(t, "removed")
	if _, err := os.Lstat(bootLink); err == nil || present(ownUnit) {
		t.Error("got the unit or its link, want both gone")
	}
}

func TestShadowOfThePackageIsFoundAndRemoved(t *testing.T) {
	if !inRoot(t) {
		return
	}
	stubSystemctl(t)
	install(t, setup(), "installed")
	packaged := packagedUnits()[0]
	if err := errors.Join(os.MkdirAll("/usr/lib/systemd/system", 0o755), os.WriteFile(packaged, []byte(systemd.Unit), 0o644)); err != nil {
		t.Fatal(err)
	}
	s, err := Status(t.Context())
	if err != nil || s.Shadows != packaged || s.Unit != ownUnit || len(s.Warnings) != 1 {
		t.Errorf("got %+v, %v, want the shadow named", s, err)
	}
	if _, err := Install(t.Context(), setup()); diag.CodeOf(err) != diag.CodePackaged {
		t.Errorf("got %v, want it left to the package", err)
	}
	calls(t)
	uninstall(t, "removed")
	if diff := cmp.Diff([]string{"daemon-reload", "reenable holdfast.service"}, calls(t)); diff != "" {
		t.Errorf("got other calls, want the service to run on (-want +got):\n%s", diff)
	}
	if _, err := Uninstall(t.Context(), dataDir); diag.CodeOf(err) != diag.CodePackaged {
		t.Errorf("got %v, want the package left to its manager", err)
	}
}

func TestFullDiskLeavesNothingHalf(t *testing.T) {
	if !inRoot(t) {
		return
	}
	stubSystemctl(t)
	if err := os.MkdirAll("/etc/systemd/system", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", "/etc/systemd/system", "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("skipping: needs a tmpfs: %v", err)
	}
	if err := os.WriteFile("/etc/systemd/system/full", make([]byte, 4096), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(t.Context(), setup()); diag.CodeOf(err) != diag.CodeDiskFull {
		t.Errorf("got %v, want a full disk", err)
	}
	if present(ownUnit) {
		t.Errorf("got %q as a unit, want none", read(t, ownUnit))
	}
	if err := os.Remove("/etc/systemd/system/full"); err != nil {
		t.Fatal(err)
	}
	install(t, setup(), "installed")
}
