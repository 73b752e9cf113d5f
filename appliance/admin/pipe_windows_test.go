// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// TestPipeCarriesAQuestion asks through a real pipe; the first client is served, too.
func TestPipeCarriesAQuestion(t *testing.T) {
	p := &planning{apply: func(context.Context, func(Progress)) (ApplyAnswer, error) { return ApplyAnswer{}, nil }}
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: Handler(&madeUp{}, &madeUp{}, p, nil, nil), ConnContext: WithPeer}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	if _, err := NewClient(strings.ToUpper(path)).Apply(t.Context(), ApplyRequest{By: "mallory"}, func(Progress) {}); err != nil {
		t.Fatal(err)
	}
	if p.ordered.By == "mallory" || p.ordered.By == "" || p.ordered.By == "unknown" {
		t.Errorf("got an apply by %q, want who is at the other end", p.ordered.By)
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
