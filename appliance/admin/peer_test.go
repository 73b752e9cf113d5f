// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admin

import (
	"context"
	"net"
	"net/http"
	"os/user"
	"path/filepath"
	"runtime"
	"testing"
)

// TestApplyKnowsWhoAsks goes through a real socket: the system says who is at its
// other end, and the client can't claim another name.
func TestApplyKnowsWhoAsks(t *testing.T) {
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
	if _, err := NewClient(path).Apply(t.Context(), ApplyRequest{By: "mallory"}, func(Progress) {}); err != nil {
		t.Fatal(err)
	}
	want := "unknown"
	if runtime.GOOS == "linux" {
		me, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		want = me.Username
	}
	if p.ordered.By != want {
		t.Errorf("got an apply by %q, want %q", p.ordered.By, want)
	}
}

func TestPeerOfOtherConnectionsIsUnknown(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if got := peerOf(WithPeer(t.Context(), here)); got != "unknown" {
		t.Errorf("got %q at the end of a pipe, want unknown", got)
	}
	if got := peerOf(t.Context()); got != "unknown" {
		t.Errorf("got %q without a connection, want unknown", got)
	}
}
