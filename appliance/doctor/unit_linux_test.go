// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/systemd"
)

// newService is a root directory with the installed service, enabled; /proc and /sys
// below it are the machine's own.
func newService(t *testing.T) *patient {
	t.Helper()
	root := t.TempDir()
	p := &patient{t: t, home: root, root: root, file: filepath.Join(root, "etc/holdfast/holdfast.yaml"), data: filepath.Join(root, "var/lib/holdfast")}
	p.write(p.file, strings.Replace(minimal, "data_dir: data", "data_dir: "+p.data, 1), 0o640)
	p.write(filepath.Join(root, "usr/lib/systemd/system/holdfast.service"), systemd.Unit, 0o644)
	p.write(filepath.Join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\nholdfast:x:4242:4242::/var/lib/holdfast:/usr/sbin/nologin\n", 0o644)
	p.write(filepath.Join(root, "etc/group"), "root:x:0:\nholdfast:x:4242:\n", 0o644)
	if err := os.MkdirAll(p.data, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"proc", "sys"} {
		if err := os.Symlink("/"+dir, filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
	}
	p.enable()
	stub(t, "systemctl", `case "$1 $2" in
"enable holdfast") mkdir -p `+root+`/etc/systemd/system/multi-user.target.wants && ln -s /usr/lib/systemd/system/holdfast.service `+root+`/etc/systemd/system/multi-user.target.wants/holdfast.service ;;
"unmask holdfast") rm `+root+`/etc/systemd/system/holdfast.service ;;
esac
echo "$@" >>`+root+`/calls`)
	return p
}

func (p *patient) enable() {
	p.t.Helper()
	link := filepath.Join(p.root, "etc/systemd/system/multi-user.target.wants/holdfast.service")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Symlink("/usr/lib/systemd/system/holdfast.service", link); err != nil {
		p.t.Fatal(err)
	}
}

func TestUnitAsShippedIsWell(t *testing.T) {
	p := newService(t)
	if r := p.isWell("unit"); !strings.Contains(r.Evidence, "as shipped, starts at boot") {
		t.Errorf("got %q, want as shipped, starts at boot", r.Evidence)
	}
	// A tarball is unpacked anywhere, and its unit is in /etc.
	p.write(filepath.Join(p.root, ownUnit), strings.Replace(systemd.Unit, "/usr/bin/holdfast", "/opt/holdfast/holdfast", 1), 0o644)
	if err := os.Remove(filepath.Join(p.root, "usr/lib/systemd/system/holdfast.service")); err != nil {
		t.Fatal(err)
	}
	p.isWell("unit")
	p.file = filepath.Join(p.root, "etc/holdfast/plant.yaml")
	p.write(p.file, readText(t, filepath.Join(p.root, "etc/holdfast/holdfast.yaml")), 0o640)
	own := strings.Replace(systemd.Unit, "/usr/bin/holdfast run --config /etc/holdfast/holdfast.yaml", "/opt/holdfast/holdfast run --config /etc/holdfast/plant.yaml", 1)
	p.write(filepath.Join(p.root, ownUnit), own, 0o644)
	p.isWell("unit")
	// Anything else in it is not as shipped, and `holdfast service install` writes it anew.
	p.write(filepath.Join(p.root, ownUnit), strings.Replace(own, " run ", " run --allow-unsafe-storage ", 1), 0o644)
	text := filepath.Join(t.TempDir(), "unit")
	p.write(text, own, 0o644)
	stub(t, "holdfast", `[ "$*" = "service install --config `+p.file+`" ] && cp `+text+` `+filepath.Join(p.root, ownUnit))
	p.heals("unit", p.isIll("unit", Warn, `ExecStart is "/opt/holdfast/holdfast run --allow-unsafe-storage`))
}

func TestUnitInEtcHidesThePackages(t *testing.T) {
	p := newService(t)
	p.write(filepath.Join(p.root, ownUnit), strings.Replace(systemd.Unit, "Restart=on-failure", "Restart=no", 1), 0o644)
	f := p.isIll("unit", Fail, `^/etc/systemd/system/holdfast.service hides /usr/lib/systemd/system/holdfast.service, with another text$`)
	p.heals("unit", f)
	p.write(filepath.Join(p.root, ownUnit), systemd.Unit, 0o644)
	p.heals("unit", p.isIll("unit", Warn, `with the same text`))
	// Also one that runs another node: the package's does not run at all then.
	p.write(filepath.Join(p.root, ownUnit), strings.Replace(systemd.Unit, "/etc/holdfast/holdfast.yaml", "/etc/holdfast/other.yaml", 1), 0o644)
	p.heals("unit", p.isIll("unit", Fail, `with another text$`))
}

func TestLibThatIsALinkHidesNothing(t *testing.T) {
	p := newService(t)
	if err := os.Symlink("usr/lib", filepath.Join(p.root, "lib")); err != nil {
		t.Fatal(err)
	}
	p.isWell("unit")
}

func TestUnitOfAnotherTextIsNamedByItsDirectives(t *testing.T) {
	p := newService(t)
	path := filepath.Join(p.root, "usr/lib/systemd/system/holdfast.service")
	p.write(path, strings.Replace(systemd.Unit, "TimeoutStopSec=90s", "TimeoutStopSec=5s\nNice=5", 1), 0o644)
	p.write(filepath.Join(p.root, "etc/debian_version"), "", 0o644)
	shipped := filepath.Join(t.TempDir(), "unit")
	p.write(shipped, systemd.Unit, 0o644)
	stub(t, "apt-get", `[ "$*" = "install --reinstall -y holdfast" ] && cp `+shipped+` `+path)
	f := p.isIll("unit", Warn, `differs from the unit of this version: Nice is "5" and not in the shipped unit, TimeoutStopSec is "5s" instead of "90s"`)
	p.heals("unit", f)
	if err := os.Remove(filepath.Join(p.root, "etc/debian_version")); err != nil {
		t.Fatal(err)
	}
	p.write(path, strings.Replace(systemd.Unit, "KillMode=mixed\n", "", 1), 0o644)
	stub(t, "dnf", `[ "$*" = "reinstall -y holdfast" ] && cp `+shipped+` `+path)
	p.heals("unit", p.isIll("unit", Warn, `KillMode is "" instead of "mixed"`))
}

func TestDropInsThatDoHarmAreNamed(t *testing.T) {
	for text, want := range map[string]struct {
		verdict  Verdict
		evidence string
	}{
		"RestrictAddressFamilies=\nRestrictAddressFamilies=AF_INET AF_UNIX": {Fail, `RestrictAddressFamilies=AF_INET AF_UNIX$`},
		"RestrictAddressFamilies=\nRestrictAddressFamilies=~AF_NETLINK":     {Fail, `RestrictAddressFamilies=~AF_NETLINK$`},
		"PrivateUsers=yes":            {Warn, `PrivateUsers=yes$`},
		"Type=simple":                 {Warn, `Type=simple$`},
		"Restart=no":                  {Fail, `Restart=no$`},
		"RestartPreventExitStatus=":   {Warn, `RestartPreventExitStatus=$`},
		"LimitNOFILE=1024":            {Warn, `LimitNOFILE=1024$`},
		"LimitNOFILE=1024:524288":     {Warn, `LimitNOFILE=1024:524288$`},
		"KillSignal=SIGKILL":          {Warn, `KillSignal=SIGKILL$`},
		"# of old\n  Restart = no \n": {Fail, `Restart=no$`},
	} {
		p := newService(t)
		file := filepath.Join(p.root, "etc/systemd/system/holdfast.service.d/override.conf")
		p.write(file, "[Service]\nNice=5\n"+text+"\n", 0o644)
		f := p.isIll("unit", want.verdict, `^/etc/systemd/system/holdfast.service.d/override.conf sets `+want.evidence)
		p.heals("unit", f)
		if left, err := os.ReadFile(file); err != nil || !strings.Contains(string(left), "Nice=5") {
			t.Errorf("got %q, %v, want what does no harm kept", left, err)
		}
		if calls, err := os.ReadFile(filepath.Join(p.root, "calls")); err != nil || string(calls) != "daemon-reload\ntry-restart holdfast\n" {
			t.Errorf("got the calls %q, %v, want a reload and a restart", calls, err)
		}
	}
}

// TestDropInsThatDoNoHarmAreLeftAlone are those that README.md of the unit names, and
// a watchdog that was switched off.
func TestDropInsThatDoNoHarmAreLeftAlone(t *testing.T) {
	p := newService(t)
	p.write(filepath.Join(p.root, "etc/systemd/system/holdfast.service.d/override.conf"),
		"[Service]\nWatchdogSec=0\nAmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\nLimitNOFILE=infinity\nRestartPreventExitStatus=2\n"+
			"RestrictAddressFamilies=AF_PACKET\nLoadCredential=http_token:/root/http_token\n", 0o644)
	if r := p.isWell("unit"); !strings.Contains(r.Evidence, "with /etc/systemd/system/holdfast.service.d/override.conf") {
		t.Errorf("got %q, want the drop-in listed", r.Evidence)
	}
}

func TestLaterDropInWins(t *testing.T) {
	p := newService(t)
	p.write(filepath.Join(p.root, "usr/lib/systemd/system/holdfast.service.d/10.conf"), "[Service]\nRestart=no\n", 0o644)
	p.isIll("unit", Fail, `10.conf sets Restart=no`)
	p.write(filepath.Join(p.root, "etc/systemd/system/holdfast.service.d/20.conf"), "[Service]\nRestart=always\n", 0o644)
	p.isWell("unit")
}

func TestMaskedUnit(t *testing.T) {
	p := newService(t)
	if err := os.Symlink("/dev/null", filepath.Join(p.root, ownUnit)); err != nil {
		t.Fatal(err)
	}
	p.heals("unit", p.isIll("unit", Fail, `is masked`))
}

func TestUnitThatDoesNotStartAtBoot(t *testing.T) {
	p := newService(t)
	if err := os.Remove(filepath.Join(p.root, "etc/systemd/system/multi-user.target.wants/holdfast.service")); err != nil {
		t.Fatal(err)
	}
	p.heals("unit", p.isIll("unit", Warn, `no \*.wants directory links`))
}

func TestDataDirThatTheUnitMayNotWriteTo(t *testing.T) {
	p := newService(t)
	p.write(p.file, strings.Replace(minimal, "data_dir: data", "data_dir: /data/hold fast", 1), 0o640)
	p.heals("unit", p.isIll("unit", Fail, `^node.data_dir is /data/hold fast, and the unit may write only to /var/lib/holdfast$`))
	p.write(p.file, strings.Replace(minimal, "data_dir: data", "data_dir: /data/holdfast2", 1), 0o640)
	p.isIll("unit", Fail, `node.data_dir is /data/holdfast2`)
}

func TestUnitOfAnotherNodeIsNotJudged(t *testing.T) {
	p := newService(t)
	p.file = filepath.Join(p.root, "other.yaml")
	p.write(p.file, minimal, 0o600)
	if r := p.look("unit"); r.Verdict != Skipped {
		t.Errorf("got %+v, want skipped", r)
	}
}
