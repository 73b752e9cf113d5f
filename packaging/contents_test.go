// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/systemd"
)

// member is a file of an archive.
type member struct {
	*tar.Header
	text []byte
}

// members reads a compressed tar.
func members(t *testing.T, zipped []byte) []member {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	var out []member
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, member{h, text})
	}
}

// debParts reads the parts of a deb, which is an ar archive.
func debParts(t *testing.T) map[string][]byte {
	t.Helper()
	rest, ok := bytes.CutPrefix(read(t, filepath.Join(packages(t), testDeb)), []byte("!<arch>\n"))
	if !ok {
		t.Fatal("got something else, want an ar archive")
	}
	out := map[string][]byte{}
	for len(rest) >= 60 {
		name := strings.Trim(string(rest[:16]), " /")
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = rest[60 : 60+size]
		rest = rest[min(60+size+size%2, len(rest)):]
	}
	return out
}

func debControl(t *testing.T) map[string]member {
	t.Helper()
	out := map[string]member{}
	for _, m := range members(t, debParts(t)["control.tar.gz"]) {
		out[strings.TrimPrefix(m.Name, "./")] = m
	}
	return out
}

func debFiles(t *testing.T) map[string]member {
	t.Helper()
	out := map[string]member{}
	for _, m := range members(t, debParts(t)["data.tar.gz"]) {
		out[strings.TrimPrefix(m.Name, ".")] = m
	}
	return out
}

func listing(files []member) string {
	var out strings.Builder
	for _, f := range files {
		fmt.Fprintf(&out, "%04o %s:%s %s\n", f.Mode, f.Uname, f.Gname, f.Name)
	}
	return out.String()
}

func TestDebHasTheseFiles(t *testing.T) {
	files := members(t, debParts(t)["data.tar.gz"])
	golden(t, "deb.golden", listing(files)+"\nconffiles:\n"+string(debControl(t)["conffiles"].text))
	for _, f := range files {
		if f.ModTime.Unix() != testDate {
			t.Errorf("got date %v for %s, want the commit's", f.ModTime, f.Name)
		}
	}
}

func TestTarballHasTheseFiles(t *testing.T) {
	files := members(t, read(t, filepath.Join(packages(t), testTar)))
	golden(t, "tar.golden", listing(files))
	for _, f := range files {
		if f.ModTime.Unix() != testDate {
			t.Errorf("got date %v for %s, want the commit's", f.ModTime, f.Name)
		}
	}
}

func TestRPMHasTheseFiles(t *testing.T) {
	need(t, "rpm")
	var out strings.Builder
	// path size mtime digest mode owner group isconfig isdoc rdev symlink
	for line := range strings.Lines(rpmQuery(t, "--dump")) {
		f := strings.Fields(line)
		if len(f) != 11 {
			t.Fatalf("got %q, want 11 fields", line)
		}
		mode, err := strconv.ParseInt(f[4], 8, 32)
		if err != nil {
			t.Fatal(err)
		}
		dir := ""
		if mode&0o40000 != 0 {
			dir = "/"
		}
		fmt.Fprintf(&out, "%04o %s:%s %s%s\n", mode&0o7777, f[5], f[6], f[0], dir)
		if f[2] != fmt.Sprint(testDate) {
			t.Errorf("got date %s for %s, want the commit's", f[2], f[0])
		}
	}
	flags := rpmQuery(t, "--queryformat", "[%{FILEFLAGS:fflags} %{FILENAMES}\n]")
	for _, flag := range []string{"cn", "d", "l"} {
		fmt.Fprintf(&out, "\n%s:\n", map[string]string{"cn": "config(noreplace)", "d": "doc", "l": "licence"}[flag])
		for line := range strings.Lines(flags) {
			if name, ok := strings.CutPrefix(line, flag+" "); ok {
				out.WriteString(name)
			}
		}
	}
	golden(t, "rpm.golden", out.String())
}

// TestRPMOwnsItsDirectories: rpm leaves behind what it does not own.
func TestRPMOwnsItsDirectories(t *testing.T) {
	need(t, "rpm")
	names := strings.Fields(rpmQuery(t, "--list"))
	for _, name := range names {
		if dir := filepath.Dir(name); strings.Contains(dir, "/holdfast") && !slices.Contains(names, dir) {
			t.Errorf("got %s without %s, want both", name, dir)
		}
	}
}

func rpmQuery(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"-qp"}, append(args, filepath.Join(packages(t), testRPM))...)
	out, err := exec.CommandContext(t.Context(), "rpm", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestRPMSaysWhatItIs(t *testing.T) {
	need(t, "rpm")
	got := rpmQuery(t, "--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{LICENSE} %{BUILDHOST} %{BUILDTIME}\n%{SUMMARY}\n%{URL}\n%{PACKAGER}\n") +
		rpmQuery(t, "--requires") + rpmQuery(t, "--changelog")
	want := `holdfast 0.1.0~rc.1 1 x86_64 Apache-2.0 holdfast ` + fmt.Sprint(testDate) + `
Durable message queue, set up from one file
https://github.com/holdfast-mq/holdfast
` + maintainer + `
/usr/sbin/useradd
/usr/sbin/groupadd
* `
	if !strings.HasPrefix(got, want) {
		t.Errorf("got %.500s, want it to begin with %s", got, want)
	}
	scripts := rpmQuery(t, "--scripts")
	for _, name := range []string{"pre", "post", "preun", "postun"} {
		if text := string(read(t, "rpm/"+name)); !strings.Contains(scripts, text) {
			t.Errorf("got no %s in the package, want the one in rpm/", name)
		}
	}
}

func TestDebSaysWhatItIs(t *testing.T) {
	control := debControl(t)
	var fields []string
	for line := range strings.Lines(string(control["control"].text)) {
		if !strings.HasPrefix(line, "Installed-Size: ") { // differs with the toolchain
			fields = append(fields, strings.TrimSuffix(line, "\n"))
		}
	}
	want := []string{
		"Package: holdfast", "Version: 0.1.0~rc.1-1", "Section: net", "Priority: optional", "Architecture: amd64",
		"Maintainer: " + maintainer,
		"Pre-Depends: init-system-helpers (>= 1.54~)",
		"Depends: adduser | systemd-sysusers",
		"Homepage: https://github.com/holdfast-mq/holdfast",
		"Description: durable message queue, set up from one file",
	}
	if d := cmp.Diff(want, fields[:len(want)]); d != "" {
		t.Errorf("fields differ (-want +got):\n%s", d)
	}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		if m := control[name]; m.Header == nil || m.Mode != 0o755 || !bytes.Equal(m.text, read(t, "deb/"+name)) {
			t.Errorf("got another %s in the package, want the one in deb/", name)
		}
	}
	names := slices.Sorted(maps.Keys(control))
	if d := cmp.Diff([]string{"conffiles", "control", "md5sums", "postinst", "postrm", "prerm"}, names); d != "" {
		t.Errorf("control files differ (-want +got):\n%s", d)
	}
}

// TestInstalledTextsAreTheRepositorys: the unit serves every way of installing.
func TestInstalledTextsAreTheRepositorys(t *testing.T) {
	files := debFiles(t)
	for name, want := range map[string]string{
		"/usr/lib/systemd/system/holdfast.service": systemd.Unit,
		"/usr/lib/sysusers.d/holdfast.conf":        systemd.Sysusers,
		"/etc/holdfast/holdfast.yaml":              string(config.Starter()),
	} {
		if got := string(files[name].text); got != want {
			t.Errorf("%s: got %q, want the repository's", name, got)
		}
	}
}

func TestInstalledConfigurationIsValid(t *testing.T) {
	dir := t.TempDir()
	files := debFiles(t)
	binary, file := filepath.Join(dir, "holdfast"), filepath.Join(dir, "holdfast.yaml")
	for name, path := range map[string]string{"/usr/bin/holdfast": binary, "/etc/holdfast/holdfast.yaml": file} {
		if err := os.WriteFile(path, files[name].text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), binary, "check", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), ": ok: ") {
		t.Errorf("got %v and %s, want a valid file", err, out)
	}
	out, err = exec.CommandContext(t.Context(), binary, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), testVersion) || !strings.Contains(string(out), testRevision[:12]) {
		t.Errorf("got %v and %s, want version %s and revision %s", err, out, testVersion, testRevision)
	}
}
