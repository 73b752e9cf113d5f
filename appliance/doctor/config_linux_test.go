// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestConfigShowsFileLineAndColumn(t *testing.T) {
	p := newPatient(t, minimal+"acounts: {}\n")
	f := p.isIll("config", Fail, `holdfast.yaml:4:1: acounts: unknown key \[HF1004\]$`)
	p.isComment(f)
	p.heals("config", f, func() { p.write(p.file, minimal, 0o600) })
	if r := p.isWell("config"); !strings.HasSuffix(r.Evidence, "holdfast.yaml: accounts 1, streams 1") {
		t.Errorf("got %q, want what is in the file", r.Evidence)
	}
}

func TestConfigThatOnlyWarns(t *testing.T) {
	p := newPatient(t, strings.Replace(minimal, "8MiB", "unlimited", 1))
	p.heals("config", p.isIll("config", Warn, `max_bytes: .* \[HF1102\]$`), func() { p.write(p.file, minimal, 0o600) })
}

func TestConfigThatIsGoneIsWrittenAnew(t *testing.T) {
	p := newPatient(t, minimal)
	if err := os.Remove(p.file); err != nil {
		t.Fatal(err)
	}
	stub(t, "holdfast", `[ "$1" = init ] && printf '%s' '`+minimal+`' >"$2"`)
	p.heals("config", p.isIll("config", Fail, `holdfast.yaml: no such file or directory \[HF1002\]$`))
}

// TestABrokenConfigurationLeavesTheOtherChecks is what somebody at a site has who only
// knows that the service does not start.
func TestABrokenConfigurationLeavesTheOtherChecks(t *testing.T) {
	p := newPatient(t, "node: {data_dir: data\nlisten: [")
	results, err := Run(t.Context(), p.input(), nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Name == "config" && r.Verdict != Fail || r.Name == "space" && r.Verdict == Skipped {
			t.Errorf("got %+v, want config to fail and the volume to be looked at", r)
		}
		if r.Name == "store" && !strings.Contains(r.Evidence, "the default: the configuration can't be read") {
			t.Errorf("got %q, want to be told that the directory is only assumed", r.Evidence)
		}
	}
}

func TestEveryFixIsGoodShell(t *testing.T) {
	p := newPatient(t, strings.Replace(minimal, "}\n", ", advertise: [\"no such host\"]}\n", 2)+"x: 1\n")
	if err := os.Chmod(p.data, 0o777); err != nil {
		t.Fatal(err)
	}
	results, err := Run(t.Context(), p.input(), nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, r := range results {
		for _, f := range r.Findings {
			mustRun(t, "sh", "-n", "-c", f.Fix)
			seen++
		}
	}
	if seen < 3 {
		t.Errorf("got %d fixes, want some", seen)
	}
}

// TestAnotherUserIsToldWhatItCantSee runs as nobody beside a node of root's.
func TestAnotherUserIsToldWhatItCantSee(t *testing.T) {
	needsRoot(t)
	p := newPatient(t, minimal)
	d, err := datadir.Open(p.data, datadir.Options{Version: "1.2.3", AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	for dir := p.home; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	asked := func() map[string]Result {
		seen := map[string]Result{}
		for _, r := range results(t, start(t, "doctor", "doctor|"+p.file, nobody).said) {
			seen[r.Name] = r
		}
		return seen
	}
	seen := asked()
	for _, name := range []string{"config", "access", "store", "lock", "certificates", "space", "file-system"} {
		r := seen[name]
		if r.Verdict == Fail || r.Verdict == OK {
			t.Errorf("%s: got %s (%+v), want unknown: nobody can't see that", name, r.Verdict, r)
		}
		for _, f := range r.Findings {
			if want := `^sudo holdfast doctor --config \S+/holdfast.yaml ` + name + `$`; f.Verdict == Unknown && !regexp.MustCompile(want).MatchString(f.Fix) {
				t.Errorf("%s: got the fix %q, want %s", name, f.Fix, want)
			}
		}
	}
	// Who may read the configuration is told what it says.
	if err := os.Chmod(p.file, 0o644); err != nil {
		t.Fatal(err)
	}
	seen = asked()
	for name, want := range map[string]Verdict{"config": OK, "ports": OK, "names": OK, "certificates": Skipped, "access": Unknown, "store": Unknown, "lock": Unknown, "space": OK} {
		if r := seen[name]; r.Verdict != want {
			t.Errorf("%s: got %s (%+v), want %s", name, r.Verdict, r, want)
		}
	}
}

// TestFixesOfAnotherUserGoThroughSudo pastes one with everything that a shell could
// take for something else.
func TestFixesOfAnotherUserGoThroughSudo(t *testing.T) {
	stub(t, "sudo", `exec "$@"`)
	file := filepath.Join(t.TempDir(), "it's a file")
	p := newPatient(t, minimal)
	p.write(file, "Restart=no\nkept\n", 0o600)
	m := &machine{uid: 1000}
	paste(t, m.asRoot(`sed -i '/^Restart=/d' `+quote(file)+" && chmod 0640 "+quote(file)))
	if got := readText(t, file); got != "kept\n" {
		t.Errorf("got %q, want the line gone", got)
	}
	if got := m.asRoot("systemctl start holdfast"); got != "sudo systemctl start holdfast" {
		t.Errorf("got %q, want sudo and nothing more", got)
	}
}

func results(t *testing.T, text string) []Result {
	t.Helper()
	var all []Result
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return all
}

func TestServiceThatDoesNotRun(t *testing.T) {
	p := newService(t)
	started := filepath.Join(p.root, "started")
	p.ask = func(ctx context.Context) (Node, error) {
		if _, err := os.Stat(started); err != nil {
			return noNode(ctx)
		}
		return Node{PID: os.Getpid(), Ready: true}, nil
	}
	stub(t, "systemctl", `[ "$*" = "start holdfast" ] && touch `+started)
	p.heals("node", p.isIll("node", Fail, `^the service does not run: nothing answers at \S+/admin.sock$`))
}

func TestNodeThatRunsAndDoesNotAnswer(t *testing.T) {
	p := newPatient(t, minimal)
	holder := start(t, "holdfast", "lock|"+p.data, nil)
	f := p.isIll("node", Fail, `^process \d+ \(holdfast\), .* runs, and nothing answers at \S+/admin.sock$`)
	p.isComment(f) // how it was started only a person knows
	p.heals("node", f, func() {
		p.ask = func(context.Context) (Node, error) { return Node{PID: holder.pid, Ready: true}, nil }
	})
}

func TestNodeThatIsNotReady(t *testing.T) {
	p := newPatient(t, minimal)
	ready := false
	p.ask = func(context.Context) (Node, error) {
		return Node{PID: 1, Ready: ready, Phase: "recovering", Missing: []string{"3 of 40 streams"}}, nil
	}
	f := p.isIll("node", Fail, `not ready \(recovering\): 3 of 40 streams$`)
	p.isComment(f)
	p.heals("node", f, func() { ready = true })
}

func TestNodeThatWasStartedWithAnotherFile(t *testing.T) {
	p := newService(t)
	node := Node{PID: 7, Ready: true, Problems: 1}
	p.ask = func(context.Context) (Node, error) { return node, nil }
	if r := p.isWell("node"); !strings.Contains(r.Evidence, "; 1 warning, see") {
		t.Errorf("got %q, want the warning counted", r.Evidence)
	}
	node.NeedRestart = []string{"storage.durability"}
	f := p.isIll("node", Warn, `^the node was started with another storage.durability than the file has$`)
	if !strings.Contains(f.Fix, "systemctl restart holdfast") {
		t.Errorf("got %q, want a restart", f.Fix)
	}
}

func TestOtherNodesInTroubleAreFound(t *testing.T) {
	p := newPatient(t, minimal)
	node := Node{PID: 7, Ready: true, Others: []Trouble{{"n2:6222: publishing stopped there at 14:03:22", "make room on its volume"}}}
	p.ask = func(context.Context) (Node, error) { return node, nil }
	f := p.isIll("node", Warn, `^another node of the cluster: n2:6222: publishing stopped there at 14:03:22$`)
	if p.isComment(f); !strings.Contains(f.Fix, "make room") {
		t.Errorf("got %q, want what to do", f.Fix)
	}
	p.heals("node", f, func() { node.Others = nil })
}

func TestNodeThatNobodyStarted(t *testing.T) {
	p := newPatient(t, minimal)
	f := p.isIll("node", Warn, `^no node runs here`)
	p.isComment(f)
}

func TestNodeThatThisUserMayNotAsk(t *testing.T) {
	p := newPatient(t, minimal)
	p.ask = func(context.Context) (Node, error) {
		return Node{}, diag.Fail(diag.CodeAdminRefused, errors.New("permission denied"), "")
	}
	if f := p.isIll("node", Unknown, `the admin socket \S+ refuses`); !strings.HasPrefix(f.Fix, "sudo holdfast doctor ") || !strings.Contains(f.Fix, "usermod -aG holdfast") {
		t.Errorf("got the fix %q, want sudo, and how to join the group", f.Fix)
	}
}

func TestNodeOfAReplacedProgram(t *testing.T) {
	p := newService(t)
	old := start(t, "holdfast", "sleep", nil)
	node := Node{PID: old.pid, Ready: true, Version: "1.2.3"}
	p.ask = func(context.Context) (Node, error) { return node, nil }
	p.isWell("version")
	if err := os.Remove(old.bin); err != nil {
		t.Fatal(err)
	}
	f := p.isIll("version", Warn, `^the node runs \S+/holdfast \(deleted\), which was replaced`)
	stub(t, "systemctl", `[ "$*" = "restart holdfast" ] && kill `+"$(cat "+p.root+"/pid)")
	p.write(filepath.Join(p.root, "pid"), itoa(old.pid), 0o600)
	p.heals("version", f, func() { node.PID = start(t, "holdfast", "sleep", nil).pid }) // as systemd does
	node.Version = "1.2.2"
	p.isIll("version", Warn, `the node runs version 1.2.2, and \S+ is version 1.2.3`)
}
