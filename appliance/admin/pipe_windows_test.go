// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

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
	defer l.Close()
	if _, err := Listen(path); diag.CodeOf(err) != diag.CodeListen {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestPipeThatIsNotThereIsNoNode(t *testing.T) {
	_, err := NewClient(filepath.Join(t.TempDir(), "admin.sock")).Status(t.Context())
	if diag.CodeOf(err) != diag.CodeNoNode {
		t.Errorf("got %v, want that no node is there", errors.Unwrap(err))
	}
}
