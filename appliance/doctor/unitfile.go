// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/howto"
)

const (
	unitName = "holdfast.service"
	// ownUnit is where an administrator puts the unit; it hides that of a package.
	ownUnit = "/etc/systemd/system/" + unitName
)

// unitDirs are where systemd looks for units, the first wins.
func unitDirs() []string {
	return []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}
}

// unit is the installed unit with its drop-ins.
type unit struct {
	path    string // of the file that counts
	text    string
	hides   string   // a file that this one takes the place of
	masked  bool     // linked to /dev/null
	unread  []string // files that this user may not read
	dropIns []string
	values  directives // with the drop-ins
}

// setting is one value of a directive, and the file that gives it.
type setting struct{ value, file string }

// directives are the values of a unit: "Service/LimitNOFILE".
type directives map[string][]setting

// last is the value that counts of a directive that has one.
func (d directives) last(key string) setting {
	if all := d[key]; len(all) > 0 {
		return all[len(all)-1]
	}
	return setting{}
}

// words are all words of a directive that may stand several times.
func (d directives) words(key string) []string {
	var all []string
	for _, s := range d[key] {
		quoted := false
		all = append(all, strings.FieldsFunc(s.value, func(c rune) bool {
			quoted = quoted != (c == '"')
			return c == '"' || c == ' ' && !quoted
		})...)
	}
	return all
}

// add reads a unit file on top of what is there: an empty value takes back all of
// the directive before it.
func (d directives) add(text, file string) {
	section := ""
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", line[0] == '#', line[0] == ';':
			continue
		case line[0] == '[':
			section = strings.Trim(line, "[]")
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		key := section + "/" + strings.TrimSpace(name)
		if value = strings.TrimSpace(value); value == "" {
			d[key] = []setting{{"", file}}
			continue
		}
		d[key] = append(d[key], setting{value, file})
	}
}

// unit finds the installed unit, nil when there is none.
func (m *machine) unit() *unit {
	if !m.unitRead {
		m.unitRead, m.installed = true, m.findUnit()
	}
	return m.installed
}

func (m *machine) findUnit() *unit {
	if howto.Here() == howto.Windows {
		return nil
	}
	var u *unit
	for _, dir := range unitDirs() {
		path := filepath.Join(dir, unitName)
		info, err := os.Lstat(m.at(path))
		switch {
		case err != nil:
			continue
		case u != nil:
			if u.hides == "" && !m.same(u.path, path) {
				u.hides = path
			}
			continue
		}
		u = &unit{path: path, values: directives{}}
		if target, err := os.Readlink(m.at(path)); err == nil && info.Mode()&os.ModeSymlink != 0 && target == "/dev/null" {
			u.masked = true
			continue
		}
		u.text = m.take(u, path)
		u.values.add(u.text, path)
	}
	if u == nil {
		return nil
	}
	for _, path := range m.dropIns() {
		u.dropIns = append(u.dropIns, path)
		u.values.add(m.take(u, path), path)
	}
	return u
}

// take reads a file of the unit, or notes that it can't.
func (m *machine) take(u *unit, path string) string {
	data, err := os.ReadFile(m.at(path))
	if denied(err) {
		u.unread = append(u.unread, path)
	}
	return string(data)
}

// same reports whether two paths are one file: /lib is a link to /usr/lib.
func (m *machine) same(a, b string) bool {
	x, errX := os.Stat(m.at(a))
	y, errY := os.Stat(m.at(b))
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// dropIns are the drop-ins in the order in which systemd reads them: by file name,
// and of two with one name that of the directory that wins.
func (m *machine) dropIns() []string {
	byName := map[string]string{}
	for _, dir := range unitDirs() {
		files, err := filepath.Glob(m.at(filepath.Join(dir, unitName+".d", "*.conf")))
		if err != nil {
			continue
		}
		for _, f := range files {
			name := filepath.Base(f)
			if _, ok := byName[name]; !ok {
				byName[name] = filepath.Join(dir, unitName+".d", name)
			}
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all
}

// configOf is the configuration file that the unit names, "" when it names none.
func (u *unit) configOf() string {
	words := strings.Fields(u.values.last("Service/ExecStart").value)
	for i, w := range words {
		if file, ok := strings.CutPrefix(w, "--config="); ok {
			return file
		}
		if (w == "--config" || w == "-c") && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}

// service reports whether the node is that of the installed unit.
func (m *machine) service() bool {
	u := m.unit()
	if u == nil || m.in.File == "" {
		return false
	}
	file := absolute(m.in.File)
	if u.masked {
		return file == m.at("/etc/holdfast/holdfast.yaml")
	}
	return u.configOf() != "" && file == m.at(u.configOf())
}
