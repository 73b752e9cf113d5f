// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// linkedInto is what the packaged binary says of itself.
func linkedInto(t *testing.T) *buildinfo.BuildInfo {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holdfast")
	if err := os.WriteFile(path, debFiles(t)["/usr/bin/holdfast"].text, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestNoticeHasTheTermsOfEveryModule(t *testing.T) {
	text := string(debFiles(t)["/usr/share/doc/holdfast/NOTICE"].text)
	info := linkedInto(t)
	for _, dep := range info.Deps {
		if !strings.Contains(text, "\n"+dep.Path+" "+dep.Version+", ") {
			t.Errorf("got nothing about %s %s, want its licence", dep.Path, dep.Version)
		}
	}
	if n := len(info.Deps); n < 50 {
		t.Errorf("got %d modules, want those of nats-server and others", n)
	}
	for _, want := range []string{
		"Go's standard library and runtime, " + info.GoVersion + ", LICENSE\n",
		", s2/LICENSE\n", // a part of a module, from elsewhere
		"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION",
		"Permission is hereby granted, free of charge, to any person obtaining a copy",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q, want it", want)
		}
	}
}

func TestModuleWithoutALicenceStopsTheBuild(t *testing.T) {
	terms := map[string]map[string]string{
		"example.com/good v1":   {"LICENSE": "terms"},
		"example.com/noted v1":  {"NOTICE": "made by somebody"},
		"example.com/nested v1": {"sub/COPYING.txt": "terms"},
		"example.com/bare v1":   {},
	}
	_, err := sortedModules(terms, module{name: "std"})
	if err == nil || err.Error() != "no licence file in example.com/bare v1, example.com/noted v1" {
		t.Errorf("got %v, want the two without a licence named", err)
	}
}

func TestLicencesAreKnownByTheirNames(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "LICENCE.md": true, "license.txt": true, "LICENSE-MIT": true, "COPYING": true, "UNLICENSE": true,
		"license.go": false, "licenses": false, "README": false, "copying_test.txt": false,
	} {
		if got := isLicence(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestToolsOfTheBuildAreNotInTheProduct: they are in the same go.mod.
func TestToolsOfTheBuildAreNotInTheProduct(t *testing.T) {
	for _, dep := range linkedInto(t).Deps {
		for _, tool := range []string{"nfpm", "rpmpack", "chglog", "cyclonedx"} {
			if strings.Contains(strings.ToLower(dep.Path), tool) {
				t.Errorf("got %s in the binary, want it only in packaging", dep.Path)
			}
		}
	}
}

func TestSBOMListsWhatIsLinked(t *testing.T) {
	text := read(t, filepath.Join(packages(t), testSBOM))
	var bom cyclonedx.BOM
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if bom.SerialNumber != "" || bom.Metadata.Timestamp != "" {
		t.Errorf("got serial number %q and time %q, want what two builds have in common", bom.SerialNumber, bom.Metadata.Timestamp)
	}
	if c := bom.Metadata.Component; c.Name != "holdfast" || c.Version != testVersion || len(*c.Hashes) != 1 {
		t.Errorf("got %+v, want holdfast %s with its checksum", c, testVersion)
	}
	listed := map[string]string{}
	for _, c := range *bom.Components {
		listed[c.Name] = c.Version
	}
	info := linkedInto(t)
	for _, dep := range info.Deps {
		if listed[dep.Path] != dep.Version {
			t.Errorf("got version %q of %s, want %s", listed[dep.Path], dep.Path, dep.Version)
		}
	}
	if got, want := listed["std"], strings.TrimPrefix(info.GoVersion, "go"); got != want {
		t.Errorf("got version %q of the standard library, want %s", got, want)
	}
	if got, want := len(*bom.Components), len(info.Deps)+1; got != want {
		t.Errorf("got %d components, want %d", got, want)
	}
	if got, want := component(cyclonedx.ComponentTypeLibrary, "a.b/c", "v2.0.0+incompatible").PackageURL, "pkg:golang/a.b/c@v2.0.0%2Bincompatible"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
