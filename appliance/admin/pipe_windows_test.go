// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Microsoft/go-winio"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// TestPipeCarriesAQuestion asks through a real pipe; the first client is served, too.
func TestPipeCarriesAQuestion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, peerOf(r.Context()))
	}), ConnContext: WithPeer}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	// Paths of Windows are the same in capitals.
	answer, err := NewClient(strings.ToUpper(path)).http.Get("http://holdfast/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	who, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(who), `\`) {
		t.Errorf("got %q, %v, want who is at the other end", who, err)
	}
}

func TestPipeOfTheSameNameIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // for the question who it is
		defer close(ended)
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	want := fmt.Sprintf("process %d", os.Getpid())
	if _, err := Listen(path); diag.CodeOf(err) != diag.CodeListen || !strings.Contains(err.Error(), want) || !strings.Contains(diag.Hint(err), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v, %s, want a refusal that names %s", err, diag.Hint(err), want)
	}
}

// TestPipeOfAStrangerIsNotAsked makes the pipe as somebody else would, before the node.
func TestPipeOfAStrangerIsNotAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	// Users, who are not trusted; only who may restore files can name another owner.
	l, err := winio.ListenPipe(Address(path), &winio.PipeConfig{SecurityDescriptor: "O:BUD:P(A;;GA;;;WD)"})
	if err != nil {
		t.Skipf("skipping: can't make a pipe of somebody else: %v", err)
	}
	takeFirst(Address(path))
	said := make(chan int, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			said <- 0
			return
		}
		n, _ := c.Read(make([]byte, 64))
		said <- n
		_ = c.Close()
	}()
	_, err = NewClient(path).Login(t.Context(), "main", "admin", false)
	if diag.CodeOf(err) != diag.CodeAdminFalse || diag.Hint(err) == "" {
		t.Errorf("got %v, want a refusal with a hint", err)
	}
	_ = l.Close()
	if n := <-said; n > 0 {
		t.Errorf("%d bytes were sent to a stranger", n)
	}
}

func TestPipeThatIsNotThereIsNoNode(t *testing.T) {
	_, err := NewClient(filepath.Join(t.TempDir(), "admin.sock")).Status(t.Context())
	if diag.CodeOf(err) != diag.CodeNoNode {
		t.Errorf("got %v, want that no node is there", errors.Unwrap(err))
	}
}
