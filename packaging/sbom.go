// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM lists what is linked into a binary, as the binary itself says. It has
// no serial number and no time, so that it is the same for the same binary.
func writeSBOM(path, binary, version string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	sum, err := checksum(binary)
	if err != nil {
		return err
	}
	app := component(cyclonedx.ComponentTypeApplication, info.Main.Path, "v"+version)
	app.Name, app.Version = "holdfast", version
	app.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}
	app.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}

	parts := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		part, err := library(dep)
		if err != nil {
			return err
		}
		parts = append(parts, part)
	}
	var refs []string
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &app}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: app.BOMRef, Dependencies: &refs}}
	var text bytes.Buffer
	enc := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	// 1.6: what scanners of the last years read.
	if err := enc.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	// https://github.com/package-url/purl-spec: + is a blank there.
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{Type: kind, BOMRef: purl, Name: path, Version: version, PackageURL: purl}
}

// library adds Go's own checksum, as go.sum has it: the SHA-256 of a list of
// SHA-256 of files.
func library(dep *debug.Module) (cyclonedx.Component, error) {
	part := component(cyclonedx.ComponentTypeLibrary, dep.Path, dep.Version)
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(dep.Sum, "h1:"))
	if err != nil {
		return part, fmt.Errorf("read the checksum of %s: %w", dep.Path, err)
	}
	part.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return part, nil
}
