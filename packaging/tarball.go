// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

func (t tree) writeTar(c components, p platform, dist string) (name string, err error) {
	name = fmt.Sprintf("holdfast_%s_linux_%s.tar.gz", t.version, p.tar)
	files, err := t.unpacked(c)
	if err != nil {
		return "", err
	}
	f, err := os.Create(filepath.Join(dist, name))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return name, t.writeTarball(f, strings.TrimSuffix(name, ".tar.gz"), files)
}

// unpacked lists what is in a tarball, whose paths are where it is unpacked.
func (t tree) unpacked(c components) ([]file, error) {
	out := []file{
		{dest: "holdfast", mode: 0o755, from: c.binary},
		{dest: "holdfast.yaml", mode: 0o644, text: config.Starter()},
		{dest: "holdfast.service", mode: 0o644, from: "systemd/holdfast.service"},
		{dest: "holdfast.sysusers", mode: 0o644, from: "systemd/holdfast.sysusers"},
		{dest: "LICENSE", mode: 0o644, from: "LICENSE"},
		{dest: "NOTICE", mode: 0o644, text: c.notice},
		{dest: "CHANGELOG.md", mode: 0o644, from: "CHANGELOG.md"},
	}
	docs, err := t.documents()
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		out = append(out, file{dest: d, mode: 0o644, from: d})
	}
	for _, dir := range []string{"man", "completions"} {
		files, err := t.below("packaging/" + dir)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			out = append(out, file{dest: path.Join(dir, path.Base(f)), mode: 0o644, from: f})
		}
	}
	return out, nil
}

// writeTarball writes the files below one directory, owned by root and all of
// one date: nothing of the machine that builds shows.
func (t tree) writeTarball(w io.Writer, dir string, files []file) error {
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(zw)
	for _, f := range files {
		text, err := t.content(f)
		if err != nil {
			return err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(dir, f.dest), Mode: int64(f.mode), Size: int64(len(text)),
			ModTime: t.date, Uname: "root", Gname: "root", Format: tar.FormatPAX,
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
