// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"debug/buildinfo"
	"debug/pe"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// TestZipForARMHasTheseFiles looks into what can't be run here.
func TestZipForARMHasTheseFiles(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-windows", "-root", "..", "-out", dir, "-version", testVersion, "-revision", testRevision, "-date", fmt.Sprint(testDate), "-arch", "arm64"}
	if err := build(t.Context(), args, io.Discard, os.Stderr); err != nil {
		t.Fatal(err)
	}
	const base = "holdfast_0.1.0-rc.1_windows_arm64"
	z, err := zip.OpenReader(filepath.Join(dir, base+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	var names strings.Builder
	for _, f := range z.File {
		fmt.Fprintln(&names, f.Name)
		if f.Modified.Unix() != testDate {
			t.Errorf("got date %v for %s, want the commit's", f.Modified, f.Name)
		}
	}
	golden(t, "zip.golden", names.String())
	text := func(name string) []byte {
		f, err := z.Open(path.Join(base, name))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		data, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if string(text("holdfast.yaml")) != string(config.Starter()) {
		t.Error("the configuration is not the starter")
	}
	if !strings.Contains(string(text("NOTICE.txt")), "go-winio") {
		t.Error("got no word of what is linked in on Windows alone")
	}
	exe := filepath.Join(t.TempDir(), "holdfast.exe")
	if err := os.WriteFile(exe, text("holdfast.exe"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantProgramForARM(t, exe)
}

// wantProgramForARM fails unless a file is a program that Windows on ARM runs in a console.
func wantProgramForARM(t *testing.T, exe string) {
	t.Helper()
	f, err := pe.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if f.Machine != pe.IMAGE_FILE_MACHINE_ARM64 {
		t.Errorf("got machine %#x, want %#x", f.Machine, pe.IMAGE_FILE_MACHINE_ARM64)
	}
	if h, ok := f.OptionalHeader.(*pe.OptionalHeader64); !ok || h.Subsystem != pe.IMAGE_SUBSYSTEM_WINDOWS_CUI {
		t.Errorf("got %T, want a program of a console", f.OptionalHeader)
	}
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	built := map[string]string{}
	for _, s := range info.Settings {
		built[s.Key] = s.Value
	}
	if built["GOOS"] != "windows" || built["GOARCH"] != "arm64" || built["CGO_ENABLED"] != "0" {
		t.Errorf("got %v, want windows, arm64 and no cgo", built)
	}
	text, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{testVersion, testRevision} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the program does not know %s", want)
		}
	}
}
