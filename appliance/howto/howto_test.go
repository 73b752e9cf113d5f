// SPDX-License-Identifier: Apache-2.0

package howto

import (
	"regexp"
	"testing"
)

// everything is each command and phrase of a system.
func everything(s System) map[string]string {
	return map[string]string{
		"start": s.Start(), "stop": s.Stop(), "restart": s.Restart(), "log": s.Log(), "system log": s.SystemLog(),
		"as root": s.AsRoot("a && b"), "elevate": s.Elevate(), "join": s.Join("ann"), "end": s.End(7), "remove": s.Remove("f"),
		"make": s.MakeDir("d"), "closed": s.ClosedFile(), "close": s.Close("f"), "give": s.Give("f"),
		"keep clock": s.KeepClock(), "set clock": s.SetClock(), "hosts": s.HostsFile(), "room": s.MakeRoom(),
		"largest": s.Largest(`C:\a`), "repair": s.RepairDisk(), "memory": s.MemoryUsers(), "listener": s.Listener("1"), "free port": s.FreePort(),
	}
}

func TestEachSystemHasItsOwnWords(t *testing.T) {
	unix := regexp.MustCompile(`systemctl|journalctl|sudo|chmod|apt-get|dmesg|\bss -|CAP_|fsck|timedatectl|\bps -e|\bdu -|\bkill \d|\brm\b|mkdir -p|kernel|chown|/etc/`)
	windows := regexp.MustCompile(`icacls|taskkill|powershell|localgroup|w32|netstat|netsh|chkdsk|cleanmgr|Windows`)
	for name, text := range everything(Windows) {
		if at := unix.FindString(text); at != "" || text == "" {
			t.Errorf("%s on Windows: got %q, want none of Linux", name, text)
		}
	}
	for _, s := range []System{"linux", "darwin"} {
		for name, text := range everything(s) {
			if at := windows.FindString(text); at != "" || text == "" {
				t.Errorf("%s on %s: got %q, want none of Windows", name, s, text)
			}
		}
	}
}

func TestCommandsAreThese(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{System("linux").Restart(), "systemctl restart holdfast"},
		{Windows.Restart(), "holdfast service restart"},
		{System("linux").AsRoot("kill 7"), "sudo kill 7"},
		{System("linux").AsRoot("a && b"), "sudo sh -c 'a && b'"},
		{Windows.AsRoot("a"), "a"},
		{System("linux").Close("/k"), "chmod 0600 /k"},
		{Windows.End(7), "taskkill /F /PID 7"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestQuotedWordsCanBePasted(t *testing.T) {
	for _, c := range []struct {
		on         System
		word, want string
	}{
		{"linux", "/var/lib/holdfast", "/var/lib/holdfast"},
		{"linux", "/a b", "'/a b'"},
		{"linux", "it's", `'it'\''s'`},
		{"linux", "", "''"},
		{Windows, `C:\ProgramData\Holdfast`, `C:\ProgramData\Holdfast`},
		{Windows, `C:\Program Files`, `"C:\Program Files"`},
		{Windows, `C:\a(b)`, `"C:\a(b)"`},
		{Windows, "", `""`},
	} {
		if got := c.on.Quote(c.word); got != c.want {
			t.Errorf("got %s for %q on %s, want %s", got, c.word, c.on, c.want)
		}
	}
}
