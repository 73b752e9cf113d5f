// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// madeUp is a node that answers what it is told to.
type madeUp struct {
	status Status
	login  Login
	err    error
	asked  []string
	ca     string
	users  []User
}

func (m *madeUp) CA() string                      { return m.ca }
func (m *madeUp) Users() []User                   { return m.users }
func (m *madeUp) ExportIdentity() ([]byte, error) { return []byte(m.ca), m.err }

func (m *madeUp) ChangeUser(_ context.Context, op CredsOp, account, user string, overlap time.Duration) error {
	m.asked = []string{string(op), account, user, overlap.String()}
	return m.err
}

func (m *madeUp) Status(context.Context) (Status, error) { return m.status, m.err }

func (m *madeUp) Login(account, user string, system bool) (Login, error) {
	m.asked = []string{account, user, map[bool]string{true: "system"}[system]}
	return m.login, m.err
}

// serve answers on the socket until the test ends.
func serve(t *testing.T, path string, h http.Handler) {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
}

func TestClientGetsWhatTheNodeSays(t *testing.T) {
	oldest := 1.5
	n := &madeUp{
		status: Status{Ready: true, Phase: PhaseRunning, Missing: []string{"a"}, Node: NodeStatus{Name: "n"}, Listeners: []Listener{{Name: "client", Open: true}},
			Recovery: &Recovery{StreamsDone: 1}, Accounts: []AccountStatus{{Name: "shop", Streams: []StreamStatus{{Name: "S", MaxBytes: -1,
				Consumers: []ConsumerStatus{{Name: "c", OldestUnacknowledged: &oldest}}}}}}, Problems: []Problem{{Severity: "warning", Code: "HF2202"}}},
		login: Login{URL: "nats://x", Account: "shop & co", User: "ä", Creds: "secret"},
	}
	path := filepath.Join(t.TempDir(), "admin.sock")
	serve(t, path, Handler(n, n, &planning{}, nil, nil))
	s, err := NewClient(path).Status(t.Context())
	if diff := cmp.Diff(n.status, s); err != nil || diff != "" {
		t.Errorf("got %v and another status (-want +got):\n%s", err, diff)
	}
	l, err := NewClient(path).Login(t.Context(), "shop & co", "ä", true)
	if err != nil || !reflect.DeepEqual(l, n.login) || !reflect.DeepEqual(n.asked, []string{"shop & co", "ä", "system"}) {
		t.Errorf("got %+v, %v, asked %q, want the login that was asked for", l, err, n.asked)
	}
}

func TestClientChangesCredentials(t *testing.T) {
	n := &madeUp{ca: "PEM\n", users: []User{{Account: "shop", User: "ä", State: "active", Retiring: []RetiringKey{{PublicKey: "U"}}}}}
	path := filepath.Join(t.TempDir(), "admin.sock")
	serve(t, path, Handler(n, n, &planning{}, nil, nil))
	c := NewClient(path)
	if ca, err := c.CA(t.Context()); err != nil || ca != n.ca {
		t.Errorf("got %q, %v, want the CA", ca, err)
	}
	if data, err := c.ExportIdentity(t.Context()); err != nil || string(data) != n.ca {
		t.Errorf("got %q, %v, want the identity to the byte", data, err)
	}
	users, err := c.Users(t.Context())
	if diff := cmp.Diff(n.users, users); err != nil || diff != "" {
		t.Errorf("got %v and other users (-want +got):\n%s", err, diff)
	}
	err = c.ChangeUser(t.Context(), CredsRotate, "shop & co", "ä/b", 24*time.Hour)
	if want := []string{"rotate", "shop & co", "ä/b", "24h0m0s"}; err != nil || !reflect.DeepEqual(n.asked, want) {
		t.Errorf("got %v, asked %q, want %q", err, n.asked, want)
	}
	n.err = diag.Fail(diag.CodeUnknownObject, errors.New("no such user"), "")
	if err := c.ChangeUser(t.Context(), CredsRevoke, "a", "b", 0); diag.CodeOf(err) != diag.CodeUnknownObject {
		t.Errorf("got %v, want the node's own error", err)
	}
}

func TestErrorsCrossTheSocketWithCodeAndHint(t *testing.T) {
	n := &madeUp{err: diag.Fail(diag.CodeUnknownObject, errors.New("no such account"), "there are: shop")}
	path := filepath.Join(t.TempDir(), "admin.sock")
	serve(t, path, Handler(n, n, &planning{}, nil, nil))
	_, err := NewClient(path).Login(t.Context(), "x", "", false)
	if err == nil || err.Error() != "no such account" || diag.CodeOf(err) != diag.CodeUnknownObject || diag.Hint(err) != "there are: shop" {
		t.Errorf("got %v, %s, hint %q, want the node's own error", err, diag.CodeOf(err), diag.Hint(err))
	}
	n.err = errors.New("plain")
	if _, err := NewClient(path).Status(t.Context()); err == nil || err.Error() != "plain" {
		t.Errorf("got %v, want the node's own error", err)
	}
}

func TestClientExplainsWhatItCanNotReach(t *testing.T) {
	dir := t.TempDir()
	leftover := filepath.Join(dir, "leftover.sock")
	l, err := net.Listen("unix", leftover)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none.sock"), filepath.Join(dir, "no", "dir.sock"), leftover} {
		_, err := NewClient(path).Status(t.Context())
		if diag.CodeOf(err) != diag.CodeNoNode || !strings.Contains(err.Error(), path) || diag.Hint(err) == "" {
			t.Errorf("%s: got %v, want %s, the path and a hint", path, err, diag.CodeNoNode)
		}
	}
	// Root may connect everywhere, so the refusal is made up here.
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)}
	if err := NewClient("/x").unreachable(refused); diag.CodeOf(err) != diag.CodeAdminRefused || !strings.Contains(diag.Hint(err), "usermod") {
		t.Errorf("got %v, hint %q, want %s and how to be let in", err, diag.Hint(err), diag.CodeAdminRefused)
	}
	if err := NewClient("/x").unreachable(context.DeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the cause kept", err)
	}

	strange := filepath.Join(dir, "strange.sock")
	serve(t, strange, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "login") {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	if _, err := NewClient(strange).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "read the node's answer") {
		t.Errorf("got %v for an empty answer, want that it can't be read", err)
	}
	if _, err := NewClient(strange).Login(t.Context(), "", "", false); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("got %v for another answer, want its status", err)
	}
}

func TestSocketIsForOwnerAndGroupOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("got mode %v, %v, want 0660", info.Mode(), err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("got %v after Close, want the file gone", err)
	}
}

func TestListenReplacesALeftoverSocketAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "admin.sock")
	// A crash leaves the file of a socket that nobody listens on.
	crashed, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	crashed.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := crashed.Close(); err != nil {
		t.Fatal(err)
	}
	serve(t, path, Handler(&madeUp{}, &madeUp{}, &planning{}, nil, nil))
	if _, err := NewClient(path).Status(t.Context()); err != nil {
		t.Errorf("got %v from the new socket, want an answer", err)
	}

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{file, link, dir, filepath.Join(dir, "nowhere", "admin.sock")} {
		if l, err := Listen(p); diag.CodeOf(err) != diag.CodeListen || diag.Hint(err) == "" {
			t.Errorf("%s: got %v, %v, want %s with a hint", p, l, err, diag.CodeListen)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("got %q, %v, want the file left alone", b, err)
	}
}

func TestAPathLongerThanASocketAddressWorks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipping: only Linux has a way around the length")
	}
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "admin.sock")
	serve(t, path, Handler(&madeUp{status: Status{Phase: PhaseRunning}}, &madeUp{}, &planning{}, nil, nil))
	if s, err := NewClient(path).Status(t.Context()); err != nil || s.Phase != PhaseRunning {
		t.Errorf("got %v, %v, want an answer", s, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("got mode %v, %v, want 0660", info.Mode(), err)
	}
}

func TestHandlerOnlyTakesGET(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	serve(t, path, Handler(&madeUp{}, &madeUp{}, &planning{}, nil, nil))
	for target, want := range map[string]int{"POST /v1/login": 405, "GET /v1/other": 404, "GET /": 404} {
		method, url, _ := strings.Cut(target, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://holdfast"+url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := NewClient(path).http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", target, resp.StatusCode, want)
		}
	}
}
