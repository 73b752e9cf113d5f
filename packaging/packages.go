// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const homepage = "https://github.com/holdfast-mq/holdfast"

const (
	summary     = "durable message queue, set up from one file"
	description = `Holdfast is a message queue in one static binary: nats-server with
JetStream, set up from one YAML file, that keeps every acknowledged message
through a power cut. Stock NATS clients talk to it.

Installed, it runs one queue on loopback. What else it is to be is in
/etc/holdfast/holdfast.yaml.`
)

// info is what deb and rpm have in common.
func (t tree) info(arch, version string, contents files.Contents) *nfpm.Info {
	return &nfpm.Info{
		Name: "holdfast", Platform: "linux", Arch: arch,
		Version: version, VersionSchema: "none", Release: packageRelease,
		Maintainer: maintainer, Vendor: "Holdfast", Homepage: homepage, License: "Apache-2.0",
		MTime: t.date, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Contents: contents},
	}
}

func (t tree) writeDeb(c components, p platform, tmp, dist string) (string, error) {
	contents, err := t.stage(c, "deb", tmp)
	if err != nil {
		return "", err
	}
	version, _, err := distVersions(t.version)
	if err != nil {
		return "", err
	}
	info := t.info(p.deb, version, contents)
	info.Description = summary + "\n" + description
	info.Section, info.Priority = "net", "optional"
	info.Depends = []string{"adduser | systemd-sysusers"}
	info.Deb.Predepends = []string{"init-system-helpers (>= 1.54~)"}
	info.Scripts = nfpm.Scripts{
		PostInstall: filepath.Join(t.root, "packaging/deb/postinst"),
		PreRemove:   filepath.Join(t.root, "packaging/deb/prerm"),
		PostRemove:  filepath.Join(t.root, "packaging/deb/postrm"),
	}
	name := fmt.Sprintf("holdfast_%s-%s_%s.deb", version, packageRelease, p.deb)
	return name, writePackage(deb.Default, info, filepath.Join(dist, name))
}

func (t tree) writeRPM(c components, p platform, tmp, dist string) (string, error) {
	contents, err := t.stage(c, "rpm", tmp)
	if err != nil {
		return "", err
	}
	_, version, err := distVersions(t.version)
	if err != nil {
		return "", err
	}
	info := t.info(p.rpm, version, contents)
	info.Description = description
	info.RPM.Summary = strings.ToUpper(summary[:1]) + summary[1:]
	// %pre makes the user; the package that has useradd goes by several names.
	info.Depends = []string{"/usr/sbin/useradd", "/usr/sbin/groupadd"}
	info.RPM.Group = "System Environment/Daemons"
	info.RPM.BuildHost = "holdfast"
	info.RPM.Packager = maintainer
	info.Scripts = nfpm.Scripts{
		PreInstall:  filepath.Join(t.root, "packaging/rpm/pre"),
		PostInstall: filepath.Join(t.root, "packaging/rpm/post"),
		PreRemove:   filepath.Join(t.root, "packaging/rpm/preun"),
		PostRemove:  filepath.Join(t.root, "packaging/rpm/postun"),
	}
	changes, err := rpmChangelog(c.releases)
	if err != nil {
		return "", err
	}
	info.Changelog = filepath.Join(tmp, "changelog.yaml")
	if err := os.WriteFile(info.Changelog, changes, 0o600); err != nil {
		return "", err
	}
	name := fmt.Sprintf("holdfast-%s-%s.%s.rpm", version, packageRelease, p.rpm)
	return name, writePackage(rpm.DefaultRPM, info, filepath.Join(dist, name))
}

// packager is nfpm's for one format.
type packager interface {
	Package(info *nfpm.Info, w io.Writer) error
}

func writePackage(p packager, info *nfpm.Info, path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return p.Package(nfpm.WithDefaults(info), f)
}

// stage writes the table where nfpm reads it, which wants files.
func (t tree) stage(c components, format, tmp string) (files.Contents, error) {
	table, err := t.installed(c)
	if err != nil {
		return nil, err
	}
	var out files.Contents
	for i, f := range table {
		if f.only != "" && f.only != format {
			continue
		}
		entry := &files.Content{
			Destination: f.dest, Type: nfpmType(f.kind, format),
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: t.date},
		}
		if f.group != "" && format == "rpm" {
			entry.FileInfo.Group = f.group
		}
		if f.kind != directory {
			text, err := t.content(f)
			if err != nil {
				return nil, err
			}
			entry.Source = filepath.Join(tmp, format+"-"+strconv.Itoa(i))
			if err := os.WriteFile(entry.Source, text, 0o600); err != nil {
				return nil, err
			}
		}
		out = append(out, entry)
	}
	return out, nil
}

func nfpmType(k kind, format string) string {
	switch {
	case k == directory:
		return files.TypeDir
	case k == conffile:
		return files.TypeConfigNoReplace
	case k == doc && format == "rpm":
		return files.TypeRPMDoc
	case k == licence && format == "rpm":
		return files.TypeRPMLicence
	}
	return files.TypeFile
}
