// SPDX-License-Identifier: Apache-2.0

// Command packaging builds what is installed: deb and rpm packages and
// tarballs, each with a static binary, with checksums and a list of what is
// linked into it. Two builds of the same commit are equal to the last bit.
//
// What is in the packages is one table, in files.go. What happens at installation
// is in the scripts in deb and rpm.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := build(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "packaging: %v\n", err)
		os.Exit(1)
	}
}

// tree is what is built.
type tree struct {
	root     string
	version  string
	revision string
	date     time.Time // of every file
}

// platform is what is built for, and what it is called there.
type platform struct {
	os                         string // linux, where it is empty
	arch, goarm, tar, deb, rpm string
}

func platforms() []platform {
	return []platform{
		{arch: "amd64", tar: "amd64", deb: "amd64", rpm: "x86_64"},
		{arch: "arm64", tar: "arm64", deb: "arm64", rpm: "aarch64"},
		{arch: "arm", goarm: "7", tar: "armv7", deb: "armhf", rpm: "armv7hl"},
	}
}

// formats are what a platform can be packed as.
func formats() []string { return []string{"deb", "rpm", "tar"} }

func build(ctx context.Context, args []string, out, errs io.Writer) error {
	fs := flag.NewFlagSet("packaging", flag.ContinueOnError)
	fs.SetOutput(errs)
	var t tree
	fs.StringVar(&t.root, "root", ".", "root of the source tree")
	fs.StringVar(&t.version, "version", "0.1.0-dev", "version that the binaries report")
	fs.StringVar(&t.revision, "revision", "", "commit that the binaries report (default: git's)")
	date := fs.String("date", os.Getenv("SOURCE_DATE_EPOCH"), "date of all files in seconds since 1970 (default: the commit's)")
	dist := fs.String("out", "dist", "directory for what is built")
	arch := fs.String("arch", "amd64,arm64,arm", "what to build for")
	format := fs.String("format", strings.Join(formats(), ","), "what to build")
	windows := fs.Bool("windows", false, "build the MSI and zips for Windows instead")
	testSign := fs.Bool("test-sign", false, "sign what is for Windows with a certificate made for it, which nobody trusts")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *windows {
		return t.mainWindows(ctx, *date, *arch, *dist, *testSign, out)
	}
	targets, err := choose(*arch)
	if err != nil {
		return err
	}
	wanted := strings.Split(*format, ",")
	for _, f := range wanted {
		if !slices.Contains(formats(), f) {
			return fmt.Errorf("unknown format %q: want some of %s", f, strings.Join(formats(), ","))
		}
	}
	if err := t.complete(ctx, *date); err != nil {
		return err
	}
	if err := os.MkdirAll(*dist, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", *dist, err)
	}
	var names []string
	for _, p := range targets {
		made, err := t.pack(ctx, p, wanted, *dist)
		if err != nil {
			return fmt.Errorf("build for %s: %w", p.tar, err)
		}
		for _, name := range made {
			fmt.Fprintf(out, "%s\n", filepath.Join(*dist, name))
		}
		names = append(names, made...)
	}
	return writeSums(filepath.Join(*dist, "SHA256SUMS"), names)
}

func choose(archs string) ([]platform, error) {
	var out []platform
	for name := range strings.SplitSeq(archs, ",") {
		i := slices.IndexFunc(platforms(), func(p platform) bool { return p.arch == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown architecture %q: want some of amd64,arm64,arm", name)
		}
		out = append(out, platforms()[i])
	}
	return out, nil
}

// pack builds everything for one platform, and returns the names of the files.
func (t tree) pack(ctx context.Context, p platform, wanted []string, dist string) (names []string, err error) {
	tmp, err := os.MkdirTemp("", "holdfast-packaging-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	c, err := t.make(ctx, p, tmp)
	if err != nil {
		return nil, err
	}
	for _, format := range wanted {
		var name string
		switch format {
		case "deb":
			name, err = t.writeDeb(c, p, tmp, dist)
		case "rpm":
			name, err = t.writeRPM(c, p, tmp, dist)
		default:
			name, err = t.writeTar(c, p, dist)
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", format, err)
		}
		names = append(names, name)
	}
	name := fmt.Sprintf("holdfast_%s_linux_%s.cdx.json", t.version, p.tar)
	if err := writeSBOM(filepath.Join(dist, name), c.binary, t.version); err != nil {
		return nil, fmt.Errorf("list what is linked: %w", err)
	}
	return append(names, name), nil
}
