// SPDX-License-Identifier: Apache-2.0

//go:build wine && linux

package winetest

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/packaging/nest"
)

func parts() []string { return []string{"acl", "admin", "datadir", "service"} }

// TestParts runs the tests of the parts that have code of their own for Windows.
func TestParts(t *testing.T) {
	w := boot(t)
	for _, name := range parts() {
		w.put(filepath.Join(os.Getenv(workDirVar), name+".test.exe"), `C:\`+name+`.test.exe`)
		out := w.must("wine64", `C:\`+name+`.test.exe`, "-test.v", "-test.run", map[string]string{"admin": "Pipe", "datadir": "Windows"}[name])
		if !strings.Contains(out, "--- PASS") || strings.Contains(out, "--- SKIP") {
			t.Errorf("%s: got %s", name, out)
		}
		t.Logf("%s: %d tests", name, strings.Count(out, "--- PASS"))
	}
}

// built is a file that was built.
func built(t *testing.T, version, extension string) string {
	t.Helper()
	file, err := nest.Built(filepath.Join(os.Getenv(workDirVar), version), extension)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestZip is the way without an installer, to the end and through a crash.
func TestZip(t *testing.T) {
	w := zipped(t)
	if out := w.holdfast(0, "service", "install"); !strings.Contains(out, "started the service") {
		t.Errorf("got %s, want a started service", out)
	}
	if out := w.holdfast(0, "service", "install"); !strings.Contains(out, "already installed") {
		t.Errorf("second install: got %s, want nothing done", out)
	}
	w.wantReady()
	if out := w.holdfast(0, "service", "status"); !strings.Contains(out, "running") || !strings.Contains(out, `"`+installed+`" run --scm`) {
		t.Errorf("got %s, want a running service whose program is in quotes", out)
	}

	large := strings.Repeat("x", 16<<10)
	w.publish(1500, large)
	w.consume(500)
	begun := time.Now()
	w.holdfast(0, "service", "stop")
	if !strings.Contains(w.log(), "msg=stopped") {
		t.Errorf("not a clean stop: %s", w.log())
	}
	t.Logf("stopped in %s", time.Since(begun).Round(time.Millisecond))

	w.wantWordsOfWindows()
	w.holdfast(0, "service", "start")
	w.wantReady()
	w.publish(500, large)
	w.kill() // the unclean end of a store that is not small
	w.holdfast(0, "service", "start")
	w.wantReady()
	if got := w.left(); got != 1500 {
		t.Errorf("got %d messages after a crash, want 1500", got)
	}
	w.consume(1500)
	w.holdfast(0, "service", "stop")

	w.wantRefused()
	if out := w.holdfast(0, "service", "uninstall"); !strings.Contains(out, `kept the messages and keys in C:\ProgramData\Holdfast\data`) {
		t.Errorf("got %s, want where the data is", out)
	}
	w.wantGone()
}

// wantWordsOfWindows asks a node that does not run, and fails where an answer tells of what
// is not on Windows.
func (w *windows) wantWordsOfWindows() {
	w.t.Helper()
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{1, "holdfast service start", []string{"status"}},
		{1, "holdfast service start", []string{"plan"}},
		{3, "holdfast service start", []string{"doctor"}},
		{3, "stopped", []string{"service", "status"}},
	} {
		out := w.holdfast(c.code, c.args...)
		if !strings.Contains(out, c.says) {
			w.t.Errorf("%q: got %s, want %q in it", c.args, out, c.says)
		}
		if at := regexp.MustCompile(`systemctl|journalctl|sudo|chmod|chown|/etc/|/proc/|/var/|uid -1`).FindString(out); at != "" {
			w.t.Errorf("%q: got %q, which is not on Windows: %s", c.args, at, out)
		}
	}
}

// wantRefused starts the service with what it must not take: a configuration that
// everybody can change, and one with a mistake.
func (w *windows) wantRefused() {
	w.t.Helper()
	const file = `C:\ProgramData\Holdfast\holdfast.yaml`
	if err := os.Chmod(w.path(file), 0o666); err != nil {
		w.t.Fatal(err)
	}
	if out := w.holdfast(1, "service", "start"); !strings.Contains(out, "exit code 78") {
		w.t.Errorf("got %s, want exit code 78", out)
	}
	if !strings.Contains(w.log(), "can be changed by Everyone") {
		w.t.Errorf("got %s, want who can change the file", w.log())
	}
	if err := os.Chmod(w.path(file), 0o644); err != nil {
		w.t.Fatal(err)
	}
	before := w.read(file)
	if err := os.WriteFile(w.path(file), []byte(before+"\nno_such_key: 1\n"), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if out := w.holdfast(1, "service", "start"); !strings.Contains(out, "exit code 78") {
		w.t.Errorf("got %s, want exit code 78", out)
	}
	if err := os.WriteFile(w.path(file), []byte(before), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// TestMSI installs, upgrades and removes without a window.
func TestMSI(t *testing.T) {
	w := boot(t)
	w.put(built(t, older, ".msi"), `C:\older.msi`)
	w.put(built(t, newer, ".msi"), `C:\newer.msi`)
	if code := w.msiexec("/i", `C:\older.msi`, "/l*v", `C:\install.log`); code != 0 {
		t.Fatalf("install: got exit code %d: %s", code, w.read(`C:\install.log`))
	}
	w.wantReady()
	w.publish(100, "hello")
	w.consume(40)
	const file = `C:\ProgramData\Holdfast\holdfast.yaml`
	mine := w.read(file) + "\n# mine\n"
	if err := os.WriteFile(w.path(file), []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}

	if code := w.msiexec("/i", `C:\newer.msi`, "/l*v", `C:\upgrade.log`); code != 0 {
		t.Fatalf("upgrade: got exit code %d: %s", code, w.read(`C:\upgrade.log`))
	}
	w.wantReady()
	if out := w.holdfast(0, "version"); !strings.Contains(out, newer) {
		t.Errorf("got %s, want version %s", out, newer)
	}
	if got := w.read(file); got != mine {
		t.Error("the upgrade changed the configuration")
	}
	if got := w.left(); got != 60 {
		t.Errorf("got %d messages after the upgrade, want 60", got)
	}

	if code := w.msiexec("/i", `C:\older.msi`); code == 0 {
		t.Error("an older version was installed over a newer one")
	}
	if out := w.holdfast(0, "version"); !strings.Contains(out, newer) {
		t.Errorf("after the refusal: got %s, want version %s", out, newer)
	}
	w.words()
	if code := w.msiexec("/x", `C:\newer.msi`, "/l*v", `C:\remove.log`); code != 0 {
		t.Fatalf("remove: got exit code %d: %s", code, w.read(`C:\remove.log`))
	}
	if _, err := os.Stat(w.path(installed)); err == nil {
		t.Error("the program is left")
	}
	w.wantGone()
	if got := w.read(`C:\ProgramData\Holdfast\KEPT.txt`); !strings.Contains(got, `C:\ProgramData\Holdfast`) {
		t.Errorf("got %q, want where what was kept is", got)
	}
}

// words is what verbs are asked for by hand, with spaces and letters beyond ASCII.
func (w *windows) words() {
	w.t.Helper()
	const file = `C:\mit Leerzeichen\größe.yaml`
	if err := os.MkdirAll(filepath.Dir(w.path(file)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.holdfast(0, "init", file)
	if out := w.holdfast(0, "check", "--config", file); !strings.Contains(out, file) {
		w.t.Errorf("check: got %s, want %s in it", out, file)
	}
	w.holdfast(2, "no-such-verb")
	w.holdfast(1, "status", "--data-dir", `C:\mit Leerzeichen`)
	w.holdfast(0, "nats", "pub", "--jetstream", "jobs.hello", "schöner Gruß")
	if out := w.holdfast(0, "nats", "consumer", "next", "JOBS", "worker", "--count", "61"); !strings.Contains(out, "schöner Gruß") {
		w.t.Errorf("got %s, want the message as it was sent", out)
	}
	w.holdfast(0, "plan")
	w.holdfast(0, "creds", "list")
	// What Wine makes of access lists is not what Windows does: whether a check fails is open.
	r := w.try("wine64", installed, "doctor", "ports", "space", "access", "file-system", "write-cache", "antivirus", "power")
	if r.code != 0 && r.code != 3 || !strings.Contains(r.out, "7 checks") {
		w.t.Errorf("doctor: got exit code %d: %s", r.code, r.out)
	}
	w.t.Logf("doctor: %s", r.out)
}

// client connects as the starter's administrator does, from Linux.
func (w *windows) client() (jetstream.JetStream, *nats.Conn) {
	w.t.Helper()
	nc, err := nats.Connect("nats://127.0.0.1:4222", nats.UserCredentials(cmp.Or(w.creds, w.path(dataDir+`\creds\main\admin.creds`))),
		nats.CustomInboxPrefix("_inbox.admin"), nats.Timeout(patience))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		w.t.Fatal(err)
	}
	return js, nc
}

// publish sends messages, and has an acknowledgement for each.
func (w *windows) publish(n int, text string) {
	w.t.Helper()
	js, nc := w.client()
	defer nc.Close()
	for i := range n {
		w.eventually(func() error {
			_, err := js.PublishAsync("jobs.x", []byte(text))
			if err != nil && !errors.Is(err, jetstream.ErrTooManyStalledMsgs) {
				w.t.Fatalf("publish %d: %v", i, err)
			}
			return err
		})
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(patience):
		w.t.Fatalf("publish: %d of %d are not acknowledged", js.PublishAsyncPending(), n)
	}
}

// consume takes messages and acknowledges them, sure that the node has heard it.
func (w *windows) consume(n int) {
	w.t.Helper()
	js, nc := w.client()
	defer nc.Close()
	c, err := js.Consumer(w.t.Context(), "JOBS", "worker")
	if err != nil {
		w.t.Fatal(err)
	}
	for n > 0 {
		batch, err := c.Fetch(min(n, 100), jetstream.FetchMaxWait(patience))
		if err != nil {
			w.t.Fatal(err)
		}
		got := 0
		for m := range batch.Messages() {
			if err := m.DoubleAck(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
			got++
		}
		if got == 0 {
			w.t.Fatalf("consume: nothing came, and %d are missing: %v", n, batch.Error())
		}
		n -= got
	}
}

// left is how many messages the queue has.
func (w *windows) left() uint64 {
	w.t.Helper()
	js, nc := w.client()
	defer nc.Close()
	s, err := js.Stream(w.t.Context(), "JOBS")
	if err != nil {
		w.t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}
