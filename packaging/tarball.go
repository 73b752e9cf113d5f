// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// entry is a file of a package: where it goes, and what is in it.
type entry struct {
	name string
	mode int64
	from string // a file, or
	text []byte // this
}

// contents is the one list of what is installed besides the binary.
func contents(root, binary string) ([]entry, error) {
	out := []entry{
		{name: "holdfast", mode: 0o755, from: binary},
		{name: "holdfast.yaml", mode: 0o644, text: config.Starter()},
		{name: "holdfast.service", mode: 0o644, from: filepath.Join(root, "systemd", "holdfast.service")},
		{name: "LICENSE", mode: 0o644, from: filepath.Join(root, "LICENSE")},
		{name: "README.md", mode: 0o644, from: filepath.Join(root, "README.md")},
		{name: "CHANGELOG.md", mode: 0o644, from: filepath.Join(root, "CHANGELOG.md")},
		{name: "docs/configuration.md", mode: 0o644, from: filepath.Join(root, "docs", "configuration.md")},
		{name: "docs/cli.md", mode: 0o644, from: filepath.Join(root, "docs", "cli.md")},
		{name: "docs/errors.md", mode: 0o644, from: filepath.Join(root, "docs", "errors.md")},
		{name: "docs/updates.md", mode: 0o644, from: filepath.Join(root, "docs", "updates.md")},
	}
	for _, dir := range []string{"man", "completions"} {
		files, err := os.ReadDir(filepath.Join(root, "packaging", dir))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			out = append(out, entry{name: path.Join(dir, f.Name()), mode: 0o644, from: filepath.Join(root, "packaging", dir, f.Name())})
		}
	}
	return out, nil
}

// writeTarball writes the files below one directory, owned by root and all of
// one date: nothing of the machine that builds shows.
func writeTarball(w io.Writer, dir string, files []entry, date time.Time) error {
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(zw)
	for _, f := range files {
		text := f.text
		if f.from != "" {
			if text, err = os.ReadFile(f.from); err != nil {
				return err
			}
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(dir, f.name), Mode: f.mode, Size: int64(len(text)),
			ModTime: date, Uname: "root", Gname: "root", Format: tar.FormatPAX,
		}
		if err := tw.WriteHeader(header); err != nil {
			return err
		}
		if _, err := tw.Write(text); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return zw.Close()
}
