// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/howto"
	"github.com/holdfast-mq/holdfast/systemd"
)

// lookAtUnit compares the installed unit with the one inside this program.
func lookAtUnit(_ context.Context, m *machine) report {
	u := m.unit()
	switch {
	case howto.Here() == howto.Windows:
		return skip("not on Windows; `holdfast service status` shows the service")
	case u == nil:
		return skip("%s is not installed", unitName)
	case !m.service() && u.hides == "":
		return skip("%s runs another node than this one", u.path)
	}
	var r report
	if !m.service() {
		// The package's node may be this one, and does not run for it.
		m.lookForShadow(&r, u)
		r.measured("%s runs another node than this one", u.path)
		return r
	}
	if u.masked {
		r.fail(u.path+" is a link to /dev/null: the unit is masked", "the service can't be started", m.asRoot("systemctl unmask holdfast"))
		return r
	}
	for _, f := range u.unread {
		r.blind(m, "can't read "+f)
	}
	m.lookForShadow(&r, u)
	if len(u.unread) == 0 {
		m.compareUnit(&r, u)
		m.lookAtOverrides(&r, u)
		m.lookAtSandbox(&r, u)
	}
	enabled := m.enabledBy()
	if enabled == "" {
		r.warn("no *.wants directory links to "+unitName, "the node does not come back after a reboot", m.asRoot("systemctl enable holdfast"))
	}
	text := u.path + ": as shipped"
	switch {
	case len(r.findings) > 0:
		text = u.path
	case len(u.dropIns) > 0:
		text += ", with " + some(u.dropIns)
	}
	if enabled != "" {
		text += ", starts at boot"
	}
	r.measured("%s", text)
	return r
}

// lookForShadow finds a unit in /etc that hides the one of the package for ever.
func (m *machine) lookForShadow(r *report, u *unit) {
	if u.hides == "" {
		return
	}
	fix := m.asRoot(fmt.Sprintf("rm %s && systemctl daemon-reload && systemctl try-restart holdfast", quote(m.at(u.path))))
	if u.text == string(m.raw(u.hides)) {
		r.warn(fmt.Sprintf("%s hides %s, with the same text", u.path, u.hides), "an upgrade of the package will not change the unit that is used", fix)
		return
	}
	r.fail(fmt.Sprintf("%s hides %s, with another text", u.path, u.hides), "the service does not run as the installed package means it to", fix)
}

func (m *machine) raw(path string) []byte {
	data, err := os.ReadFile(m.at(path))
	if err != nil {
		return nil
	}
	return data
}

// compareUnit looks at the file alone, without its drop-ins. The place of the
// program may differ: a tarball is unpacked anywhere.
func (m *machine) compareUnit(r *report, u *unit) {
	shipped, found := directives{}, directives{}
	shipped.add(systemd.Unit, "")
	found.add(u.text, "")
	var other []string
	for key, want := range shipped {
		if got := found[key]; !slices.Equal(got, want) && !sameStart(key, got, want) {
			other = append(other, fmt.Sprintf("%s is %q instead of %q", name(key), joined(got), joined(want)))
		}
	}
	for key, got := range found {
		if _, ok := shipped[key]; !ok {
			other = append(other, fmt.Sprintf("%s is %q and not in the shipped unit", name(key), joined(got)))
		}
	}
	if len(other) == 0 || u.hides != "" && len(r.findings) > 0 {
		return // the file that hides the package's has its own finding
	}
	slices.Sort(other)
	r.warn(fmt.Sprintf("%s differs from the unit of this version: %s", u.path, some(other)),
		"what was changed by hand is lost or outdated with an upgrade, and parts of the protection may be missing", lines(
			comment("changes of your own belong into a drop-in: systemctl edit holdfast"), m.reinstall(u)))
}

func name(key string) string { _, n, _ := strings.Cut(key, "/"); return n }

func joined(all []setting) string {
	var words []string
	for _, s := range all {
		words = append(words, s.value)
	}
	return strings.Join(words, "; ")
}

// sameStart reports whether a command is the shipped one but for the two paths that
// `holdfast service install` may set: the program and its configuration.
func sameStart(key string, got, want []setting) bool {
	if key != "Service/ExecStart" || len(got) != 1 {
		return false
	}
	words, shipped := strings.Fields(got[0].value), strings.Fields(want[0].value)
	if len(words) != len(shipped) {
		return false
	}
	for i, w := range words {
		isPath := filepath.IsAbs(w) && (i == 0 || words[i-1] == "--config")
		if !isPath && w != shipped[i] {
			return false
		}
	}
	return true
}

// reinstall is how the unit gets its shipped text back.
func (m *machine) reinstall(u *unit) string {
	switch {
	case u.path == ownUnit:
		return m.asRoot(fmt.Sprintf("rm %s && %s service install --config %s", quote(m.at(u.path)), quote(m.in.Program), quote(absolute(m.in.File))))
	case m.exists("/etc/debian_version"):
		return m.asRoot("apt-get install --reinstall -y holdfast")
	}
	return m.asRoot("dnf reinstall -y holdfast")
}

// override is a directive that does harm with some values.
type override struct {
	key         string
	harms       func(d directives) bool
	verdict     Verdict
	consequence string
}

func overrides() []override {
	is := func(key string, bad ...string) func(directives) bool {
		return func(d directives) bool { return slices.Contains(bad, strings.ToLower(d.last(key).value)) }
	}
	return []override{
		{"Service/RestrictAddressFamilies", noNetlink, Fail, "without AF_NETLINK nats-server can't list the machine's addresses and silently advertises none"},
		{"Service/PrivateUsers", is("Service/PrivateUsers", "yes", "true", "on", "1", "self"), Warn, "the admin socket can't tell who asks: the log names nobody"},
		{"Service/Type", func(d directives) bool { return d.last("Service/Type").value != "notify" }, Warn, "systemd does not wait until the streams exist, and units ordered after it start too early"},
		{"Service/Restart", is("Service/Restart", "no", "", "on-success"), Fail, "the node does not come back after a crash"},
		{"Service/RestartPreventExitStatus", func(d directives) bool {
			return !slices.Contains(d.words("Service/RestartPreventExitStatus"), "78")
		}, Warn, "a broken configuration makes the service start over and over"},
		{"Service/LimitNOFILE", fewFiles, Warn, "streams and clients beyond the limit are refused"},
		{"Service/KillSignal", is("Service/KillSignal", "sigkill", "9", "kill"), Warn, "every stop is like a crash"},
	}
}

func noNetlink(d directives) bool {
	words := d.words("Service/RestrictAddressFamilies")
	if len(words) == 0 {
		return false // no restriction at all
	}
	denies := strings.HasPrefix(words[0], "~")
	words[0] = strings.TrimPrefix(words[0], "~")
	return slices.Contains(words, "AF_NETLINK") == denies
}

// enoughFiles is a limit of descriptors that no machine of this kind reaches.
const enoughFiles = 65536

func fewFiles(d directives) bool {
	value, _, _ := strings.Cut(d.last("Service/LimitNOFILE").value, ":")
	n, err := strconv.ParseUint(value, 10, 64)
	return err == nil && n < enoughFiles
}

// lookAtOverrides finds drop-ins that do harm.
func (m *machine) lookAtOverrides(r *report, u *unit) {
	for _, o := range overrides() {
		if !o.harms(u.values) {
			continue
		}
		s := u.values.last(o.key)
		if s.file == "" || !slices.Contains(u.dropIns, s.file) {
			continue // said by the comparison with the shipped unit
		}
		r.find(o.verdict, fmt.Sprintf("%s sets %s=%s", s.file, name(o.key), s.value), o.consequence,
			m.asRoot(fmt.Sprintf(`sed -i '/^[[:space:]]*%s[[:space:]]*=/d' %s && systemctl daemon-reload && systemctl try-restart holdfast`, name(o.key), quote(m.at(s.file)))))
	}
}

// lookAtSandbox finds a data directory that the unit's protection keeps read-only.
func (m *machine) lookAtSandbox(r *report, u *unit) {
	dir := m.dataDir()
	if dir == "" || u.values.last("Service/ProtectSystem").value != "strict" {
		return
	}
	may := u.values.words("Service/ReadWritePaths")
	for _, s := range u.values.words("Service/StateDirectory") {
		may = append(may, "/var/lib/"+s)
	}
	for _, p := range may {
		p = strings.TrimLeft(p, "-+")
		if isBelow(dir, p) || isBelow(dir, m.at(p)) {
			return
		}
	}
	file := "/etc/systemd/system/" + unitName + ".d/50-data-dir.conf"
	r.fail(fmt.Sprintf("node.data_dir is %s, and the unit may write only to %s", dir, strings.Join(may, ", ")), "the service can't write there and does not start",
		m.asRoot(fmt.Sprintf(`mkdir -p %s && printf '[Unit]\nRequiresMountsFor="%%s"\n[Service]\nReadWritePaths="%%s"\n' %s %s > %s && systemctl daemon-reload && systemctl restart holdfast`,
			quote(m.at(filepath.Dir(file))), quote(dir), quote(dir), quote(m.at(file)))))
}

// isBelow reports whether a path is dir or in it.
func isBelow(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// enabledBy is the link that starts the unit at boot, "" when there is none.
func (m *machine) enabledBy() string {
	for _, dir := range unitDirs() {
		for _, kind := range []string{"*.wants", "*.requires"} {
			links, err := filepath.Glob(m.at(filepath.Join(dir, kind, unitName)))
			if err == nil && len(links) > 0 {
				return links[0]
			}
		}
	}
	return ""
}
