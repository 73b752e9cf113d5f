// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/tune"
)

// actEnv makes this program another one, see act. ownMountsEnv names a test that
// runs in a mount namespace of its own.
const (
	actEnv       = "TEST_ACT"
	ownMountsEnv = "TEST_OWN_MOUNTS"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(actEnv); what != "" {
		if err := act(strings.Split(what, "|")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// act is what a process does that the doctor finds. It says "ready" or what was
// asked for, and ends with its standard input.
func act(what []string) error {
	said := "ready"
	switch what[0] {
	case "listen":
		l, err := net.Listen("tcp", what[1])
		if err != nil {
			return err
		}
		defer l.Close()
		said = l.Addr().String()
	case "lock": // as a node does
		f, err := os.OpenFile(datadir.LockPath(what[1]), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return err
		}
		if len(what) > 2 { // the limit of descriptors
			var l unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
				return err
			}
			l.Cur = 200
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
				return err
			}
		}
	case "write", "read":
		mode := map[string]int{"write": os.O_CREATE | os.O_RDWR}[what[0]]
		f, err := os.OpenFile(what[1], mode, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
	case "tune": // root, directory, setting: as the verb does it
		in := tune.Input{Root: what[1], Dir: what[2]}
		r, err := tune.Look(in, what[3:])
		if err != nil {
			return err
		}
		if _, err := tune.Apply(in, r, true); err != nil {
			return err
		}
	case "doctor":
		p := patient{file: what[1]}
		results, err := Run(context.Background(), p.input(), nil, func(string) {})
		if err != nil {
			return err
		}
		text, err := json.Marshal(results)
		if err != nil {
			return err
		}
		said = string(text)
	}
	fmt.Println(said)
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// actor is a process that acts.
type actor struct {
	pid  int
	said string
	bin  string
}

// start runs this program under another name.
func start(t *testing.T, name, what string, as *syscall.Credential) actor {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, name)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(self, bin) != nil { // on another file system
		mustRun(t, "cp", self, bin)
	}
	mustRun(t, "chmod", "0755", dir, filepath.Dir(dir)) // another user has to get at it
	cmd := exec.Command(bin)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), actEnv+"="+what)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	line := make(chan string, 1)
	go func() { // reaps a process that a fix has killed, while the test goes on
		defer close(done)
		text, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			text = "ended: " + text
		}
		line <- strings.TrimSpace(text)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		<-done
	})
	a := actor{pid: cmd.Process.Pid, said: <-line, bin: bin}
	if strings.HasPrefix(a.said, "ended") {
		t.Fatalf("got %q from %s, want it to go on", a.said, what)
	}
	return a
}

// patient is a configuration with its data directory, and what stands for the system.
type patient struct {
	t    *testing.T
	home string
	file string
	data string
	root string
	ask  func(context.Context) (Node, error)
	edit func(*machine)
	anew bool // each look in a process of its own, as in life: Go remembers the hosts file
}

const minimal = `node: {data_dir: data}
listen: {client: "127.0.0.1:0", http: "127.0.0.1:0"}
accounts: {main: {streams: {JOBS: {subjects: ["jobs.>"], max_bytes: 8MiB}}}}
`

func newPatient(t *testing.T, text string) *patient {
	t.Helper()
	home := t.TempDir()
	p := &patient{t: t, home: home, file: filepath.Join(home, "holdfast.yaml"), data: filepath.Join(home, "data")}
	p.write(p.file, text, 0o600)
	if err := os.Mkdir(p.data, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *patient) write(path, text string, mode os.FileMode) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		p.t.Fatal(err)
	}
}

func noNode(context.Context) (Node, error) {
	return Node{}, diag.Fail(diag.CodeNoNode, fmt.Errorf("no node is running here"), "")
}

func (p *patient) input() Input {
	cfg, problems := config.Load(config.Options{File: p.file, AllowNATSKey: func(string) (string, bool) { return "", true }})
	in := Input{
		File: p.file, Config: cfg, Problems: problems, Socket: datadir.SocketPath(cfg.Node.DataDir),
		Ask: noNode, Version: "1.2.3", Root: p.root,
	}
	if p.ask != nil {
		in.Ask = p.ask
	}
	return in
}

// look runs one check anew, with the configuration as it is now.
func (p *patient) look(name string) Result {
	p.t.Helper()
	if p.anew {
		for _, r := range results(p.t, start(p.t, "doctor", "doctor|"+p.file, nil).said) {
			if r.Name == name {
				return r
			}
		}
	}
	for _, c := range checks() {
		if c.name == name {
			m := newMachine(p.input())
			m.check = name
			if p.edit != nil {
				p.edit(m)
			}
			return c.run(p.t.Context(), m)
		}
	}
	p.t.Fatalf("there is no check %s", name)
	return Result{}
}

// isIll wants a finding with this verdict and evidence, and returns it.
func (p *patient) isIll(name string, v Verdict, evidence string) Finding {
	p.t.Helper()
	r := p.look(name)
	for _, f := range r.Findings {
		if f.Verdict == v && regexp.MustCompile(evidence).MatchString(f.Evidence) {
			if f.Consequence == "" || f.Fix == "" {
				p.t.Errorf("%s: got consequence %q and fix %q, want both", name, f.Consequence, f.Fix)
			}
			return f
		}
	}
	p.t.Fatalf("%s: got %+v, want a finding %s that matches %q", name, r, v, evidence)
	return Finding{}
}

// heals runs the printed fix as a person would paste it, does what only a person can,
// and wants the check to be well then.
func (p *patient) heals(name string, f Finding, person ...func()) {
	p.t.Helper()
	paste(p.t, f.Fix)
	for _, do := range person {
		do()
	}
	p.isWell(name)
}

func (p *patient) isWell(name string) Result {
	p.t.Helper()
	r := p.look(name)
	if r.Verdict != OK || len(r.Findings) > 0 || r.Evidence == "" {
		p.t.Fatalf("%s: got %+v, want ok with evidence", name, r)
	}
	return r
}

// isComment wants a fix that only a person can carry out to be harmless to paste.
func (p *patient) isComment(f Finding) {
	p.t.Helper()
	for line := range strings.Lines(f.Fix) {
		if !strings.HasPrefix(line, "# ") {
			p.t.Errorf("got the line %q in a fix, want a comment", line)
		}
	}
}

func paste(t *testing.T, fix string) {
	t.Helper()
	if os.Geteuid() != 0 {
		stub(t, "sudo", `exec "$@"`) // the files of a test are its own
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", fix)
	cmd.Dir = t.TempDir() // not where the configuration is: paths have to hold anywhere
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("got %v from the fix %q\n%s", err, fix, out)
	}
}

func mustRun(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// stub puts a command of this name in front of the path: services are not touched
// here.
func stub(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// needs skips where something is missing, except where nothing may be skipped.
func needs(t *testing.T, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" {
		t.Fatalf("needs %s, and nothing may be skipped", what)
	}
	t.Skipf("skipping: needs %s", what)
}

func needsRoot(t *testing.T) {
	t.Helper()
	needs(t, os.Geteuid() == 0, "root")
}

// inOwnMounts runs the test again in a mount namespace of its own, where the kernel
// takes away what was mounted however it ends. It reports whether this is that run.
func inOwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownMountsEnv) == t.Name() {
		return true
	}
	needsRoot(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownMountsEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in a mount namespace of its own: %v\n%s", err, out)
	}
	return false
}

// mount mounts and takes away at the end of the test.
func mount(t *testing.T, at string, args ...string) {
	t.Helper()
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "mount", append(args, at)...)
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", at).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	})
}

// eventually waits for a process that a fix has ended to be gone.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		mustRun(t, "sleep", "0.01")
	}
	t.Fatalf("%s did not come about in 10 s", what)
}
