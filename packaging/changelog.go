// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maintainer signs packages and changelogs.
const maintainer = "Holdfast maintainers <holdfast-mq@users.noreply.github.com>"

// release is a section of CHANGELOG.md.
type release struct {
	version string
	date    time.Time
	changes []string
}

// readChangelog reads sections such as `## 0.1.0 / 2026-11-30`. What is under
// `## Unreleased` is in the version that is built, unless that has its own.
func readChangelog(text, version string, date time.Time) ([]release, error) {
	heading := regexp.MustCompile(`^## (\S+)(?: / (\d{4}-\d\d-\d\d))?$`)
	var out []release
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch m := heading.FindStringSubmatch(line); {
		case m != nil && m[1] == "Unreleased":
			if !strings.Contains(text, "\n## "+version+" / ") {
				out = append(out, release{version: version, date: date})
			}
		case m != nil:
			day, err := time.Parse(time.DateOnly, m[2])
			if err != nil {
				return nil, fmt.Errorf("section %q has no date: %w", m[1], err)
			}
			out = append(out, release{version: m[1], date: day})
		case len(out) == 0:
		case strings.HasPrefix(line, "- "):
			last := &out[len(out)-1]
			last.changes = append(last.changes, strings.TrimPrefix(line, "- "))
		case strings.HasPrefix(line, "  "):
			last := &out[len(out)-1]
			if n := len(last.changes); n > 0 {
				last.changes[n-1] += " " + strings.TrimSpace(line)
			}
		}
	}
	if len(out) == 0 || out[0].version != version {
		return nil, fmt.Errorf("no section for version %q", version)
	}
	return out, nil
}

// debianChangelog is what deb-changelog(5) describes.
func debianChangelog(releases []release) ([]byte, error) {
	var b strings.Builder
	for _, r := range releases {
		version, _, err := distVersions(r.version)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "holdfast (%s-%s) unstable; urgency=medium\n\n", version, packageRelease)
		for _, c := range r.changes {
			b.WriteString(wrap("  * "+c, "    ", 79))
		}
		fmt.Fprintf(&b, "\n -- %s  %s\n\n", maintainer, r.date.UTC().Format(time.RFC1123Z))
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// wrap breaks a line between words.
func wrap(line, indent string, width int) string {
	lead := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var b strings.Builder
	at := lead
	for i, word := range strings.Fields(line) {
		switch {
		case i == 0:
			at += word
		case len(at)+1+len(word) > width:
			b.WriteString(at + "\n")
			at = indent + word
		default:
			at += " " + word
		}
	}
	return b.String() + at + "\n"
}

// rpmChangelog is the file that nfpm reads for the changelog of an rpm.
func rpmChangelog(releases []release) ([]byte, error) {
	type note struct {
		Note string `yaml:"note"`
	}
	type entry struct {
		Semver   string    `yaml:"semver"`
		Date     time.Time `yaml:"date"`
		Packager string    `yaml:"packager"`
		Changes  []note    `yaml:"changes"`
	}
	var out []entry
	for _, r := range releases {
		_, version, err := distVersions(r.version)
		if err != nil {
			return nil, err
		}
		e := entry{Semver: version + "-" + packageRelease, Date: r.date, Packager: maintainer}
		for _, c := range r.changes {
			e.Changes = append(e.Changes, note{Note: c})
		}
		out = append(out, e)
	}
	return yaml.Marshal(out)
}
