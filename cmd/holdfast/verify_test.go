// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// verifier is a node that finds what it is told to.
type verifier struct {
	found    admin.Verified
	verified []admin.VerifyRequest
	mended   []admin.MendRequest
}

func (v *verifier) Verify(_ context.Context, r admin.VerifyRequest, progress func(admin.VerifyProgress)) (admin.Verified, error) {
	v.verified = append(v.verified, r)
	progress(admin.VerifyProgress{StreamsTotal: 2, BytesTotal: 10, BytesDone: 5})
	return v.found, nil
}

func (v *verifier) Mend(_ context.Context, r admin.MendRequest) (admin.MendAnswer, error) {
	v.mended = append(v.mended, r)
	return admin.MendAnswer{Damage: v.found.Damage, ClosedSeconds: 0.25}, nil
}

func (v *verifier) serve(t *testing.T) (dataDir string) {
	t.Helper()
	dir := t.TempDir()
	l, err := admin.Listen(appliance.FindSocket(dir))
	if err != nil {
		t.Fatal(err)
	}
	n := &planner{}
	s := &http.Server{Handler: admin.Handler(n, n, n, nil, v)}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return dir
}

// whole is a pass that has found nothing.
func whole() admin.Verified {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return admin.Verified{Begun: at, Ended: at.Add(204100 * time.Millisecond), Streams: 12, Blocks: 1290, Messages: 21482113, Bytes: 10 << 30, Damage: []admin.Damage{}}
}

func damagedPass() admin.Verified {
	out := whole()
	out.Hidden = 3
	out.Damage = []admin.Damage{
		{Stream: "shop/ORDERS", Lost: "lost: 151", Ranges: []admin.SeqRange{{From: 151, To: 151}}, Open: true, Original: "/var/lib/holdfast/quarantine/T/A/ORDERS/2.blk"},
		{Stream: "shop/ORDERS", Lost: "the file of block 4 is gone; lost: 301 to 400", Ranges: []admin.SeqRange{{From: 301, To: 400}}},
	}
	return out
}

func TestVerifySaysWhatItFound(t *testing.T) {
	troubled := whole()
	troubled.Problems = []string{"stream shop/JOBS: permission denied"}
	for name, c := range map[string]struct {
		found admin.Verified
		code  int
	}{
		"whole":    {whole(), exitOK},
		"damaged":  {damagedPass(), exitDamaged},
		"troubled": {troubled, exitFailed},
	} {
		n := &verifier{found: c.found}
		dir := n.serve(t)
		got := invoke(t, "verify", "--data-dir", dir)
		if got.code != c.code || got.err != "" {
			t.Errorf("%s: got exit code %d and %q, want %d and nothing on stderr", name, got.code, got.err, c.code)
		}
		sameAsFile(t, filepath.Join("testdata", "verify", name+".txt"), got.out)
		got = invoke(t, "verify", "--data-dir", dir, "--output", "json", "shop/ORDERS", "--rate", "1MiB")
		var out verifyAnswer
		if err := json.Unmarshal([]byte(got.out), &out); err != nil || got.code != c.code {
			t.Fatalf("%s: got exit code %d and %v from %q", name, got.code, err, got.out)
		}
		if diff := cmp.Diff(verifyAnswer{Node: "running", Verified: c.found}, out); diff != "" {
			t.Errorf("%s: got another answer (-want +got):\n%s", name, diff)
		}
		want := []admin.VerifyRequest{{Rate: 50 << 20}, {Rate: 1 << 20, Streams: []string{"shop/ORDERS"}}}
		if diff := cmp.Diff(want, n.verified); diff != "" || len(n.mended) > 0 {
			t.Errorf("%s: got other requests, or something mended (-want +got):\n%s", name, diff)
		}
	}
}

func TestVerifyMendsAfterAYes(t *testing.T) {
	for name, c := range map[string]struct {
		answer   string
		yes      bool
		terminal bool
		output   string
		want     string // of the error
		mends    bool
	}{
		"yes":               {yes: true, output: "text", mends: true},
		"yes in JSON":       {yes: true, output: "json", mends: true},
		"answered with yes": {terminal: true, answer: "y\n", output: "text", mends: true},
		"answered with no":  {terminal: true, answer: "n\n", output: "text", want: "nothing was mended"},
		"nobody there":      {output: "text", want: "no terminal to ask on"},
		"nobody in JSON":    {terminal: true, output: "json", want: "nobody is asked"},
	} {
		n := &verifier{found: damagedPass()}
		file := filepath.Join(t.TempDir(), "answer")
		writeFile(t, file, c.answer)
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		var out, errs bytes.Buffer
		v := verifying{std: stdio{in: in, out: &out, err: &errs}, g: &globals{dataDir: n.serve(t), output: c.output}, rate: "50MiB", mend: true, yes: c.yes,
			isTerminal: func(any) bool { return c.terminal }}
		err = v.run(t.Context(), nil)
		var code exitError
		switch {
		case c.mends && (!errors.As(err, &code) || code != exitDamaged):
			t.Errorf("%s: got %v, want exit code %d: what is lost is lost", name, err, exitDamaged)
		case !c.mends && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if want := []admin.MendRequest{{Streams: []string{"shop/ORDERS"}}}; c.mends != cmp.Equal(n.mended, want) {
			t.Errorf("%s: got %+v mended, want %t", name, n.mended, c.mends)
		}
		if c.mends && c.output == "text" && !strings.Contains(out.String(), "the streams were closed for 0.2s. Gone for good:\n  shop/ORDERS  lost: 151\n") {
			t.Errorf("%s: got %q, want what is gone", name, out.String())
		}
	}
}

func TestVerifyRefusesWhatCanNotBeMeant(t *testing.T) {
	dir := t.TempDir()
	for _, args := range []string{"--rate 0", "--rate 12", "--rate fast", "ORDERS", "shop/", "/ORDERS"} {
		got := invoke(t, append([]string{"verify", "--data-dir", dir}, strings.Fields(args)...)...)
		if got.code != exitUsage || !strings.Contains(got.err, "hint: ") {
			t.Errorf("%s: got exit code %d and %q, want 2 and a hint", args, got.code, got.err)
		}
	}
	if got := invoke(t, "verify", "--data-dir", dir); got.code == exitOK || !strings.Contains(got.err, "no data directory") {
		t.Errorf("got exit code %d and %q in an empty directory, want it refused", got.code, got.err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v in the directory, want nothing", left, err)
	}
}

func TestStatusSaysWhenEverythingWasRead(t *testing.T) {
	at := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	last := func(change func(*admin.VerifiedLast)) *admin.VerifiedLast {
		l := &admin.VerifiedLast{Ended: at.Add(-75 * time.Hour), Streams: 12}
		if change != nil {
			change(l)
		}
		return l
	}
	for _, c := range []struct {
		status admin.VerifyStatus
		want   string
	}{
		{admin.VerifyStatus{}, "never; `holdfast verify` does it"},
		{admin.VerifyStatus{Every: 1}, "not yet"},
		{admin.VerifyStatus{Every: 1, Last: last(nil)}, "all 12 streams, 3 days ago, nothing damaged"},
		{admin.VerifyStatus{Last: last(func(l *admin.VerifiedLast) { l.Damaged, l.Ended = 1, at.Add(-90*time.Minute) })}, "all 12 streams, 1h30m ago, 1 damage found; not by itself any more"},
		{admin.VerifyStatus{Every: 1, Last: last(func(l *admin.VerifiedLast) { l.Hidden, l.Streams, l.Ended = 2, 1, at })}, "all 1 stream, just now, nothing damaged, 2 blocks not looked into (encrypted)"},
		{admin.VerifyStatus{Every: 1, Running: &admin.VerifyProgress{StreamsTotal: 3, BytesDone: 1 << 20, BytesTotal: 4 << 20, Current: "shop/ORDERS"}}, "not yet; under way: 1.0 MiB of 4.0 MiB, now shop/ORDERS"},
	} {
		if got := verifiedText(c.status, at); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestVerifyProgressTellsHowMuchIsLeft(t *testing.T) {
	var p verifyProgress
	if got := p.text(2 * time.Second); got != "reading, 2s" {
		t.Errorf("got %q before any news", got)
	}
	p.set(admin.VerifyProgress{StreamsDone: 2, StreamsTotal: 12, BytesDone: 5 << 20, BytesTotal: 20 << 20, Current: "shop/ORDERS", Damaged: 1})
	p.from = time.Now().Add(-10 * time.Second)
	if got, want := p.text(0), "[#####...............] reading: 5.0 MiB of 20 MiB, stream 3 of 12, 30s left, 1 damage found, shop/ORDERS"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
