// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admin

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// patience only bounds a hang.
const patience = 30 * time.Second

// benches is a node that answers a measurement as it is told to.
type benches func(ctx context.Context, r BenchRequest, led func()) error

func (b benches) Bench(ctx context.Context, r BenchRequest, led func()) error { return b(ctx, r, led) }

func benchClient(t *testing.T, b benches) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.sock")
	serve(t, path, Handler(&madeUp{}, &madeUp{}, &planning{}, b, nil))
	return NewClient(path)
}

func within[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("got nothing within %v, want %s", patience, what)
	}
	return v
}

// TestBenchLastsUntilTheAskingSideEndsIt is what takes a lane away when the command is
// done, was interrupted, or killed: then the connection ends.
func TestBenchLastsUntilTheAskingSideEndsIt(t *testing.T) {
	want := BenchRequest{Account: "shop", Stream: "S", Subject: "s.>", Consumer: "c"}
	asked, over := make(chan BenchRequest, 1), make(chan struct{}, 1)
	c := benchClient(t, func(ctx context.Context, r BenchRequest, led func()) error {
		asked <- r
		led()
		<-ctx.Done()
		over <- struct{}{}
		return nil
	})
	for _, how := range []string{"end", "cancel"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		end, err := c.Bench(ctx, want)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if got := within(t, asked, "a request"); got != want {
			t.Errorf("%s: got request %+v, want %+v", how, got, want)
		}
		select {
		case <-over:
			t.Errorf("%s: got an end, want it to last", how)
		default:
		}
		if how == "cancel" {
			cancel()
		} else if err := end(); err != nil {
			t.Errorf("%s: got %v, want the asking side's own end to be none", how, err)
		}
		within(t, over, "the end of it on the node")
	}
}

func TestBenchSaysWhyNot(t *testing.T) {
	refused := diag.Fail(diag.CodeUnknownObject, errors.New("no such stream"), "make it")
	c := benchClient(t, func(context.Context, BenchRequest, func()) error { return refused })
	if end, err := c.Bench(t.Context(), BenchRequest{}); end != nil || diag.CodeOf(err) != diag.CodeUnknownObject || diag.Hint(err) != "make it" {
		t.Errorf("got %v, want the node's own error", err)
	}
	if end, err := NewClient(filepath.Join(t.TempDir(), "none.sock")).Bench(t.Context(), BenchRequest{}); end != nil || diag.CodeOf(err) != diag.CodeNoNode {
		t.Errorf("got %v without a node, want %s", err, diag.CodeNoNode)
	}
}

func TestBenchSaysThatItEndedBefore(t *testing.T) {
	c := benchClient(t, func(_ context.Context, _ BenchRequest, led func()) error {
		led()
		return errors.New("stopping")
	})
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		end, err := c.Bench(t.Context(), BenchRequest{})
		if err == nil {
			// The end is under way, and may not have come yet.
			<-tick.C
			err = end()
		}
		if err != nil {
			if err.Error() != "stopping" {
				t.Errorf("got %v, want the reason", err)
			}
			return
		}
		select {
		case <-deadline:
			t.Fatal("got no reason, want one")
		default:
		}
	}
}
