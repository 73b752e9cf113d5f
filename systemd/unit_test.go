// SPDX-License-Identifier: Apache-2.0

package systemd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/systemd"
)

func units() map[string]string {
	return map[string]string{"holdfast.service": systemd.Unit, "holdfast-tune.service": systemd.Tune}
}

// unitFile writes a unit with a program that exists here: verify looks.
func unitFile(t *testing.T, name string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("skipping: needs systemd-analyze")
	}
	path := filepath.Join(t.TempDir(), name)
	text := strings.ReplaceAll(units()[name], "/usr/bin/holdfast", "/bin/true")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnitIsUnderstoodWhole(t *testing.T) {
	for name := range units() {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", unitFile(t, name)).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: got %v and %q, want silence", name, err, out)
		}
	}
}

func TestUnitExposureIsLow(t *testing.T) {
	// 1.5 of 10; the stock nats-server unit is at 9.0. The other one has to be root, and to
	// write to /sys.
	for name, most := range map[string]string{"holdfast.service": "15", "holdfast-tune.service": "20"} {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=yes", "--threshold="+most, "--no-pager", unitFile(t, name)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: got %v, want an exposure of at most %s tenths:\n%s", name, err, most, out)
		}
	}
}

func TestReadmeExplainsEveryDirective(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(systemd.Unit + systemd.Tune) {
		name, _, ok := strings.Cut(line, "=")
		switch {
		case !ok, strings.HasPrefix(name, "Protect"), strings.HasPrefix(name, "Private"), strings.HasPrefix(name, "Restrict"):
			continue // explained as a group
		}
		switch name {
		case "Description", "Documentation", "ExecStart", "WantedBy", "NotifyAccess", "Environment", "StateDirectoryMode",
			"RuntimeDirectoryMode", "RemoveIPC", "StateDirectory", "LockPersonality", "MemoryDenyWriteExecute", "SystemCallArchitectures":
			continue // says itself what it does, or belongs to a line that is explained
		}
		if !strings.Contains(string(readme), name+"=") && !strings.Contains(string(readme), "`"+name) {
			t.Errorf("README.md does not explain %s=", name)
		}
	}
}
