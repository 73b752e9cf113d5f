// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admin

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// verifies is a node that makes a pass as it is told to.
type verifies func(ctx context.Context, r VerifyRequest, progress func(VerifyProgress)) (Verified, error)

func (v verifies) Verify(ctx context.Context, r VerifyRequest, progress func(VerifyProgress)) (Verified, error) {
	return v(ctx, r, progress)
}

func (verifies) Mend(ctx context.Context, r MendRequest) (MendAnswer, error) {
	if ctx.Done() != nil {
		return MendAnswer{}, errors.New("it can be interrupted")
	}
	return MendAnswer{Damage: []Damage{{Stream: r.Streams[0]}}, ClosedSeconds: 1}, nil
}

func verifyClient(t *testing.T, v verifies) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.sock")
	serve(t, path, Handler(&madeUp{}, &madeUp{}, &planning{}, nil, v))
	return NewClient(path)
}

func TestVerifyTellsHowFarItIsAndWhatItFound(t *testing.T) {
	want := Verified{Streams: 2, Damage: []Damage{{Stream: "shop/ORDERS", Ranges: []SeqRange{{1, 1 << 60}}}}}
	request := VerifyRequest{Streams: []string{"shop/ORDERS"}, Rate: 5}
	c := verifyClient(t, func(_ context.Context, r VerifyRequest, progress func(VerifyProgress)) (Verified, error) {
		if !cmp.Equal(r, request) {
			t.Errorf("got request %+v, want %+v", r, request)
		}
		progress(VerifyProgress{BytesDone: 1})
		progress(VerifyProgress{BytesDone: 2})
		return want, nil
	})
	var told []int64
	got, err := c.Verify(t.Context(), request, func(p VerifyProgress) { told = append(told, p.BytesDone) })
	if err != nil || !cmp.Equal(got, want) || !cmp.Equal(told, []int64{1, 2}) {
		t.Errorf("got %+v, %v and %v, want %+v", got, err, told, want)
	}
	if a, err := c.Mend(t.Context(), MendRequest{Streams: []string{"shop/ORDERS"}}); err != nil || a.Damage[0].Stream != "shop/ORDERS" || a.ClosedSeconds != 1 {
		t.Errorf("got %+v, %v, want it mended, whoever goes away", a, err)
	}
}

func TestVerifyEndsWithWhoeverAsked(t *testing.T) {
	ended := make(chan struct{}, 1)
	c := verifyClient(t, func(ctx context.Context, _ VerifyRequest, progress func(VerifyProgress)) (Verified, error) {
		progress(VerifyProgress{})
		<-ctx.Done()
		ended <- struct{}{}
		return Verified{}, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := c.Verify(ctx, VerifyRequest{}, func(VerifyProgress) { cancel() }); err == nil {
		t.Error("got no error from a pass that was ended")
	}
	within(t, ended, "the end of it on the node")
}

func TestVerifySaysWhyNot(t *testing.T) {
	refused := diag.Fail(diag.CodeUnknownObject, errors.New("no such stream"), "name another")
	c := verifyClient(t, func(context.Context, VerifyRequest, func(VerifyProgress)) (Verified, error) {
		return Verified{}, refused
	})
	_, err := c.Verify(t.Context(), VerifyRequest{}, func(VerifyProgress) {})
	if diag.CodeOf(err) != diag.CodeUnknownObject || diag.Hint(err) != "name another" {
		t.Errorf("got %v, want the node's reason", err)
	}
}
