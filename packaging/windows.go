// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"compress/flate"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// windowsPlatforms are those with a zip; wixl makes an MSI of the first.
func windowsPlatforms() []platform {
	return []platform{{os: "windows", arch: "amd64", tar: "amd64"}, {os: "windows", arch: "arm64", tar: "arm64"}}
}

// mainWindows is the whole build for Windows.
func (t tree) mainWindows(ctx context.Context, date, archs, dist string, testSign bool, out io.Writer) (err error) {
	if err := t.complete(ctx, date); err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dist, err)
	}
	s := environmentSigner()
	if testSign {
		keys, err := os.MkdirTemp("", "holdfast-signing-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(keys)) }()
		if s, err = testSigner(keys); err != nil {
			return fmt.Errorf("make a test certificate: %w", err)
		}
	}
	names, err := t.buildWindows(ctx, archs, s, dist)
	if err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintf(out, "%s\n", filepath.Join(dist, name))
	}
	return writeSums(filepath.Join(dist, "SHA256SUMS.windows"), names)
}

// buildWindows builds the MSI and the zips, and returns their names.
func (t tree) buildWindows(ctx context.Context, archs string, s signer, dist string) (names []string, err error) {
	for _, p := range windowsPlatforms() {
		if !slices.Contains(strings.Split(archs, ","), p.arch) {
			continue
		}
		made, err := t.packWindows(ctx, p, s, dist)
		if err != nil {
			return nil, fmt.Errorf("build for windows %s: %w", p.arch, err)
		}
		names = append(names, made...)
	}
	return names, nil
}

func (t tree) packWindows(ctx context.Context, p platform, s signer, dist string) (names []string, err error) {
	tmp, err := os.MkdirTemp("", "holdfast-packaging-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	c, err := t.make(ctx, p, tmp)
	if err != nil {
		return nil, err
	}
	// Before it is packed: what is in the MSI is signed, too.
	if err := s.sign(ctx, c.binary); err != nil {
		return nil, err
	}
	base := fmt.Sprintf("holdfast_%s_windows_%s", t.version, p.tar)
	if err := t.writeZip(c, filepath.Join(dist, base+".zip"), base); err != nil {
		return nil, fmt.Errorf("pack zip: %w", err)
	}
	names = append(names, base+".zip")
	if p.arch == "amd64" {
		msi := filepath.Join(dist, base+".msi")
		if err := t.writeMSI(ctx, c, tmp, msi); err != nil {
			return nil, fmt.Errorf("pack msi: %w", err)
		}
		if err := s.sign(ctx, msi); err != nil {
			return nil, err
		}
		names = append(names, base+".msi")
	}
	return names, nil
}

// writeZip writes what the tarballs have, but for what is of no use on Windows.
func (t tree) writeZip(c components, name, dir string) (err error) {
	docs, err := t.documents()
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zw := zip.NewWriter(f)
	zw.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	files := t.windowsFiles(c)
	for _, d := range docs {
		files = append(files, winFile{d, file{from: d}})
	}
	for _, w := range files {
		text, err := t.content(w.file)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: path.Join(dir, w.name), Method: zip.Deflate, Modified: t.date}
		out, err := zw.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return zw.Close()
}

// winFile is a file under its name on Windows.
type winFile struct {
	name string
	file file
}

func (t tree) windowsFiles(c components) []winFile {
	return []winFile{
		{"holdfast.exe", file{from: c.binary}},
		{"holdfast.yaml", file{text: config.Starter()}},
		{"LICENSE.txt", file{from: "LICENSE"}},
		{"NOTICE.txt", file{text: c.notice}},
		{"CHANGELOG.md", file{from: "CHANGELOG.md"}},
		{"holdfast.ps1", file{from: "packaging/completions/holdfast.ps1"}},
	}
}

// writeMSI has wixl make the package, and adds what wixl has no words for.
func (t tree) writeMSI(ctx context.Context, c components, tmp, out string) error {
	short, err := msiVersion(t.version)
	if err != nil {
		return err
	}
	dir := filepath.Join(tmp, "msi")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for name, f := range map[string]file{
		"holdfast.exe": {from: c.binary}, "LICENSE.txt": {from: "LICENSE"}, "NOTICE.txt": {text: c.notice},
		"windows.md": {from: "docs/windows.md"}, "holdfast.wxs": {from: "packaging/msi/holdfast.wxs"},
		"Environment.idt": {text: environmentTable()}, "Registry.idt": {text: registryTable(short)}, "Upgrade.idt": {text: upgradeTable(short)},
	} {
		text, err := t.content(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	product := codeFor("product " + t.version)
	const made = "holdfast.msi"
	said, err := run(ctx, dir, "wixl", "-a", "x64", "-D", "Version="+short, "-D", "ProductCode="+product, "-o", made, "holdfast.wxs")
	// What wixl warns of it leaves out.
	if err == nil && strings.Contains(strings.ToUpper(said), "WARNING") {
		err = fmt.Errorf("wixl: %s", said)
	}
	if err != nil {
		return err
	}
	at := func(action string, when int) []string {
		return []string{"-q", fmt.Sprintf("UPDATE `InstallExecuteSequence` SET `Sequence`=%d WHERE `Action`='%s'", when, action)}
	}
	for _, args := range [][]string{
		{"-i", "Environment.idt"}, {"-i", "Registry.idt"}, {"-i", "Upgrade.idt"},
		{"-q", "INSERT INTO `InstallExecuteSequence` (`Action`,`Sequence`) VALUES ('WriteEnvironmentStrings',5200)"},
		{"-q", "INSERT INTO `InstallExecuteSequence` (`Action`,`Sequence`) VALUES ('RemoveEnvironmentStrings',3300)"},
		// wixl gets these wrong. Inside the transaction an upgrade that fails brings the old version back.
		at("RemoveExistingProducts", 1501), at("Halt", 1890), at("Farewell", 3400), at("Prepare", 5850),
		{"-s", "Holdfast " + t.version, "Holdfast", "x64;1033", "{" + codeFor("package "+t.version+t.revision) + "}"},
	} {
		if _, err := run(ctx, dir, "msibuild", append([]string{made}, args...)...); err != nil {
			return err
		}
	}
	return copyFile(filepath.Join(dir, made), out)
}

// table is one of an MSI as msibuild reads it: names of columns, their types, the name of
// the table and of the columns of its key, and the rows.
func table(lines ...[]string) []byte {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.Join(l, "\t") + "\r\n")
	}
	return []byte(b.String())
}

// environmentTable puts the program on the path of the machine, and takes it off again.
func environmentTable() []byte {
	return table(
		[]string{"Environment", "Name", "Value", "Component_"},
		[]string{"s72", "l255", "L255", "s72"},
		[]string{"Environment", "Environment"},
		[]string{"Path", "=-*PATH", "[~];[INSTALLDIR]", "Program"})
}

// registryTable has where the program is, and the source of events: the service's account
// could not make it.
func registryTable(version string) []byte {
	const source = `SYSTEM\CurrentControlSet\Services\EventLog\Application\Holdfast`
	return table(
		[]string{"Registry", "Root", "Key", "Name", "Value", "Component_"},
		[]string{"s72", "i2", "l255", "L255", "L0", "s72"},
		[]string{"Registry", "Registry"},
		[]string{"InstallDir", "2", `SOFTWARE\Holdfast`, "InstallDir", "[INSTALLDIR]", "Program"},
		[]string{"Version", "2", `SOFTWARE\Holdfast`, "Version", version, "Program"},
		[]string{"CustomSource", "2", source, "CustomSource", "#1", "Program"},
		[]string{"EventMessageFile", "2", source, "EventMessageFile", `#%%SystemRoot%\System32\EventCreate.exe`, "Program"},
		[]string{"TypesSupported", "2", source, "TypesSupported", "#7", "Program"})
}

// upgradeTable takes an equal version for an older one: 0.1.0-rc.1 and 0.1.0 are one to
// Windows Installer, and must replace each other.
func upgradeTable(version string) []byte {
	const code, upToVersion, onlyDetect = "{6C9C5E0C-8D35-4C5B-9E0A-5D1B7C2E8F41}", "513", "2"
	return table(
		[]string{"UpgradeCode", "VersionMin", "VersionMax", "Language", "Attributes", "Remove", "ActionProperty"},
		[]string{"s38", "S20", "S20", "S255", "i4", "S255", "s72"},
		[]string{"Upgrade", "UpgradeCode", "VersionMin", "VersionMax", "Language", "Attributes"},
		[]string{code, "", version, "", upToVersion, "", "WIX_UPGRADE_DETECTED"},
		[]string{code, version, "", "", onlyDetect, "", "WIX_DOWNGRADE_DETECTED"})
}

// msiVersion is what Windows Installer compares: three numbers.
func msiVersion(version string) (string, error) {
	if _, _, err := distVersions(version); err != nil {
		return "", err
	}
	short, _, _ := strings.Cut(version, "+")
	short, _, _ = strings.Cut(short, "-")
	return short, nil
}

// codeFor is a GUID that is the same for the same name (RFC 9562, version 5).
func codeFor(name string) string {
	sum := sha1.Sum([]byte("https://github.com/holdfast-mq/holdfast " + name))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	return strings.ToUpper(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

func run(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
