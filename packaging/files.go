// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// components is what is not in the tree but made for a build.
type components struct {
	binary   string // a file
	notice   []byte
	releases []release
}

// kind is what a package manager does with a file.
type kind int

const (
	plain     kind = iota
	conffile       // kept as it is once somebody has changed it
	directory      // there even when nothing is in it
	doc            // may be left out, where somebody wants that
	licence        // may not
)

// file is a line of the table of what is installed. All belong to root.
type file struct {
	dest  string
	mode  fs.FileMode
	kind  kind
	group string // not root; in a deb the postinst sets it, for there is no such group when dpkg unpacks
	only  string // "deb" or "rpm"; empty is both
	from  string // a file below the root of the tree or anywhere, or
	text  []byte // this
	gzip  bool
}

// installed is the one list of what deb and rpm install.
func (t tree) installed(c components) ([]file, error) {
	changes, err := debianChangelog(c.releases)
	if err != nil {
		return nil, err
	}
	out := []file{
		{dest: "/usr/bin/holdfast", mode: 0o755, from: c.binary},
		{dest: "/etc/holdfast", mode: 0o755, kind: directory},
		{dest: "/etc/holdfast/holdfast.yaml", mode: 0o640, group: "holdfast", kind: conffile, text: config.Starter()},
		{dest: "/etc/holdfast/holdfast.d", mode: 0o750, group: "holdfast", kind: directory},
		{dest: "/etc/default/holdfast", mode: 0o644, kind: conffile, only: "deb", from: "packaging/etc/environment"},
		{dest: "/etc/sysconfig/holdfast", mode: 0o644, kind: conffile, only: "rpm", from: "packaging/etc/environment"},

		{dest: "/usr/lib/systemd/system/holdfast.service", mode: 0o644, from: "systemd/holdfast.service"},
		// Off, until somebody says so with `holdfast tune --apply --at-boot`.
		{dest: "/usr/lib/systemd/system/holdfast-tune.service", mode: 0o644, from: "systemd/holdfast-tune.service"},
		{dest: "/usr/lib/sysusers.d/holdfast.conf", mode: 0o644, from: "systemd/holdfast.sysusers"},
		// Debian enables what it installs; its presets are for first boots.
		{dest: "/usr/lib/systemd/system-preset/80-holdfast.preset", mode: 0o644, only: "rpm", from: "systemd/holdfast.preset"},

		{dest: "/usr/lib/firewalld/services/holdfast.xml", mode: 0o644, from: "packaging/etc/firewalld.xml"},
		{dest: "/etc/ufw/applications.d/holdfast", mode: 0o644, kind: conffile, only: "deb", from: "packaging/etc/ufw"},
		{dest: "/etc/needrestart/conf.d/holdfast.conf", mode: 0o644, kind: conffile, only: "deb", from: "packaging/etc/needrestart.conf"},

		{dest: "/usr/share/bash-completion/completions/holdfast", mode: 0o644, from: "packaging/completions/holdfast.bash"},
		{dest: "/usr/share/fish/vendor_completions.d/holdfast.fish", mode: 0o644, from: "packaging/completions/holdfast.fish"},
		{dest: "/usr/share/zsh/vendor-completions/_holdfast", mode: 0o644, only: "deb", from: "packaging/completions/_holdfast"},
		{dest: "/usr/share/zsh/site-functions/_holdfast", mode: 0o644, only: "rpm", from: "packaging/completions/_holdfast"},

		{dest: "/usr/share/lintian/overrides/holdfast", mode: 0o644, only: "deb", from: "packaging/deb/holdfast.lintian-overrides"},
		{dest: "/usr/share/doc/holdfast/copyright", mode: 0o644, only: "deb", from: "packaging/deb/copyright"},
		{dest: "/usr/share/doc/holdfast/changelog.Debian.gz", mode: 0o644, only: "deb", text: changes, gzip: true},
		{dest: "/usr/share/doc/holdfast/NOTICE", mode: 0o644, only: "deb", text: c.notice},
		{dest: "/usr/share/licenses/holdfast", mode: 0o755, kind: directory, only: "rpm"},
		{dest: "/usr/share/licenses/holdfast/LICENSE", mode: 0o644, kind: licence, only: "rpm", from: "LICENSE"},
		{dest: "/usr/share/licenses/holdfast/NOTICE", mode: 0o644, kind: licence, only: "rpm", text: c.notice},
		{dest: "/usr/share/doc/holdfast", mode: 0o755, kind: directory},
		{dest: "/usr/share/doc/holdfast/docs", mode: 0o755, kind: directory},
		{dest: "/usr/share/doc/holdfast/docs/ops", mode: 0o755, kind: directory},
		{dest: "/usr/share/doc/holdfast/examples", mode: 0o755, kind: directory},
		{dest: "/usr/share/doc/holdfast/examples/holdfast.yaml", mode: 0o644, kind: doc, text: config.Starter()},
	}
	docs, err := t.documents()
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		out = append(out, file{dest: path.Join("/usr/share/doc/holdfast", d), mode: 0o644, kind: doc, from: d})
	}
	pages, err := t.below("packaging/man")
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		section := strings.TrimPrefix(path.Ext(p), ".")
		out = append(out, file{dest: "/usr/share/man/man" + section + "/" + path.Base(p) + ".gz", mode: 0o644, kind: doc, from: p, gzip: true})
	}
	return out, nil
}

// documents are the pages for those who run a node: not those for who changes it.
func (t tree) documents() ([]string, error) {
	out := []string{"README.md"}
	for _, dir := range []string{"docs", "docs/ops"} {
		pages, err := t.below(dir)
		if err != nil {
			return nil, err
		}
		for _, p := range pages {
			if p != "docs/dependencies.md" {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// below lists the files of a directory, in the order of their names.
func (t tree) below(dir string) ([]string, error) {
	files, err := os.ReadDir(filepath.Join(t.root, dir))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range files {
		if f.Type().IsRegular() {
			out = append(out, path.Join(dir, f.Name()))
		}
	}
	return out, nil
}

// content is what a file holds.
func (t tree) content(f file) ([]byte, error) {
	text := f.text
	if f.from != "" {
		name := f.from
		if !filepath.IsAbs(name) {
			name = filepath.Join(t.root, name)
		}
		var err error
		if text, err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	if !f.gzip {
		return text, nil
	}
	var b bytes.Buffer
	// As gzip -9n does it: without a name and a time.
	zw, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := zw.Write(text); err != nil {
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
