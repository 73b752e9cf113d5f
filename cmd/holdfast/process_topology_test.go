// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

func TestProcessLaterStartConvergesAndRemovesNothing(t *testing.T) {
	t.Parallel()
	n := filled(t)
	changed := strings.NewReplacer(
		"max_bytes: 64MiB\n        duplicate_window: 10m", "max_bytes: 32MiB\n        duplicate_window: 10m",
		"worker: {ack_wait: 1s}", "worker: {ack_wait: 7s}",
	).Replace(shop) + `      NEW:
        subjects: ["new.>"]
        max_bytes: 1MiB
        consumers:
          reader: {}
`
	n.configure(changed)
	before := len(n.log.String())
	n.start()
	const want = "accounts.shop.streams.ORDERS.max_bytes: 64MiB on the server, 32MiB in the file; lowers the limit"
	line, at := n.logged(want), fmt.Sprintf("holdfast.yaml:%d:", lineOf(changed, "max_bytes: 32MiB"))
	for _, part := range []string{"level=WARN", at, "HF2202", "--allow-destructive shop/ORDERS"} {
		if !strings.Contains(line, part) {
			t.Errorf("got %q, want it to contain %q", line, part)
		}
	}
	if code, out := n.holdfast("status", "--config", "holdfast.yaml"); code != exitOK || !strings.Contains(out, want) {
		t.Errorf("got exit code %d and %q from status, want 0 and %q", code, out, want)
	}
	if got := strings.Count(n.log.String()[before:], "HF2202"); got != 1 {
		t.Errorf("got %d warnings of differences, want 1", got)
	}
	n.logged("ack_wait: 1s on the server, 7s in the file")
	js := n.jetStream()
	consumer(t, js, "NEW", "reader")
	publish(t, js, "new.a", "works")
	s, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo(); got.Config.MaxBytes != 64<<20 || got.State.Msgs != 1 {
		t.Errorf("got max_bytes %d and %d messages, want both as they were", got.Config.MaxBytes, got.State.Msgs)
	}
	if got := consumer(t, js, "JOBS", "worker").CachedInfo().Config.AckWait.String(); got != "7s" {
		t.Errorf("got ack_wait %s, want 7s as in the file", got)
	}
	n.stop()
}

// lineOf is the line of the first of the texts that is there.
func lineOf(text string, parts ...string) int {
	for _, p := range parts {
		if i := strings.Index(text, p); i >= 0 {
			return 1 + strings.Count(text[:i], "\n")
		}
	}
	return 0
}

// TestProcessServesWhatExistsWhileSomethingIsMissing lets a client's own stream
// have the subjects of a declared one.
func TestProcessServesWhatExistsWhileSomethingIsMissing(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	n.nats(nil, "stream", "add", "GRAB", "--subjects", "new.>", "--storage", "file")
	n.stop()
	n.configure(shop + `      NEW:
        subjects: ["new.>"]
        max_bytes: 1MiB
        consumers:
          reader: {}
`)
	n.launch()
	s := n.waitStatus("running", func(s admin.Status) bool { return s.Phase == admin.PhaseRunning })
	if s.Ready || len(s.Missing) != 2 || !strings.Contains(s.Missing[0], "stream shop/NEW") || !strings.Contains(s.Missing[1], "consumer shop/NEW/reader") {
		t.Errorf("got ready %t, missing %q, want the stream and its consumer missing", s.Ready, s.Missing)
	}
	if code, body := n.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "topology: stream shop/NEW: ") || !strings.Contains(body, "subjects overlap") {
		t.Errorf("got %d and %q, want 503, the stream and the reason", code, body)
	}
	if code, _ := n.get("/livez"); code != http.StatusOK {
		t.Errorf("got %d from /livez, want 200", code)
	}
	if code, out := n.holdfast("status", "--config", "holdfast.yaml"); code != exitNotReady || !strings.Contains(out, "NOT READY") || !strings.Contains(out, "shop/NEW") {
		t.Errorf("got exit code %d and %q, want 3 and what is missing", code, out)
	}
	if !slices.ContainsFunc(s.Problems, func(p admin.Problem) bool {
		return strings.Contains(p.What, "stream shop/NEW") && strings.Contains(p.What, "overlap") && strings.HasSuffix(p.File, "holdfast.yaml") && p.Line > 0 && p.Fix != ""
	}) {
		t.Errorf("got problems %+v, want where the stream is in the file and what to do", s.Problems)
	}
	if line := n.logged("msg=\"not done\""); !strings.Contains(line, "stream=NEW") || !strings.Contains(line, "holdfast.yaml:") || !strings.Contains(line, "level=ERROR") {
		t.Errorf("got %q, want an error with the stream and its place in the file", line)
	}
	publish(t, n.jetStream(), "jobs.a", "works all the same")

	n.nats(nil, "stream", "rm", "-f", "GRAB")
	n.waitReady() // by itself
	n.logged("msg=ready")
	consumer(t, n.jetStream(), "NEW", "reader")
	n.stop()
}

// TestProcessShowsHowFarARecoveryIs holds the recovery at one stream: its index
// is a pipe that nobody has written to yet.
func TestProcessShowsHowFarARecoveryIs(t *testing.T) {
	t.Parallel()
	n := filled(t)
	found, err := filepath.Glob(filepath.Join(n.data, "jetstream", "*", "streams", "ORDERS", "msgs", "index.db"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v, %v, want the index of the stream", found, err)
	}
	index, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(found[0]); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(found[0], 0o600); err != nil {
		t.Fatal(err)
	}
	n.launch()
	s := n.waitStatus("recovering its last stream", func(s admin.Status) bool {
		return s.Phase == admin.PhaseRecovering && s.Recovery != nil && s.Recovery.StreamsDone > 0 && s.Recovery.Current == "shop/ORDERS"
	})
	// The third is Holdfast's own, which may come up before or after the look.
	if s.Ready || s.Recovery.StreamsTotal != 3 || s.Recovery.BytesTotal == 0 {
		t.Errorf("got ready %t, recovery %+v, want some of 3 streams and their bytes", s.Ready, s.Recovery)
	}
	far := regexp.MustCompile(`recovering streams: [12] of 3`)
	code, out := n.holdfast("status", "--config", "holdfast.yaml")
	if code != exitNotReady || !far.MatchString(out) || !strings.Contains(out, "now shop/ORDERS") {
		t.Errorf("got exit code %d and %q, want 3 and the progress", code, out)
	}
	if code, body := n.get("/readyz"); code != http.StatusServiceUnavailable || !far.MatchString(body) {
		t.Errorf("got %d and %q, want 503 and the progress", code, body)
	}
	if code, _ := n.get("/livez"); code != http.StatusOK {
		t.Errorf("got %d from /livez, want 200", code)
	}
	if code, body := n.get("/metrics"); code != http.StatusOK || !strings.Contains(body, "holdfast_ready 0") {
		t.Errorf("got %d and %q, want holdfast_ready 0", code, body)
	}
	code, out = n.holdfast("nats", "--config", "holdfast.yaml", "stream", "ls")
	if code != exitFailed || !strings.Contains(out, "the client port is not open yet") {
		t.Errorf("got exit code %d and %q, want 1 and that the port is not open", code, out)
	}
	// Not the first such line: it may be from before the other stream was there.
	if line := n.logged("total=3"); !strings.Contains(line, "recovering streams") {
		t.Errorf("got %q, want the progress", line)
	}
	// A recovery may take minutes, and what changes meanwhile is a change.
	n.configure(strings.Replace(shop, "worker: {ack_wait: 1s}", "worker: {ack_wait: 9s}", 1))
	if err := os.WriteFile(found[0], index, 0o600); err != nil { // into the pipe
		t.Fatal(err)
	}
	n.waitReady()
	n.logged("ack_wait: 1s on the server, 9s in the file")
	s2, err := n.jetStream().Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s2.GetMsg(t.Context(), 1); err != nil || string(m.Data) != "precious" {
		t.Errorf("got %v, %v, want the message from before", m, err)
	}
	n.stop()
}

func TestProcessStatusIsTheSameForMachines(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	code, out := n.holdfast("status", "--config", "holdfast.yaml", "--output", "json")
	var s admin.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != exitOK || !s.Ready {
		t.Errorf("got exit code %d, %v and %q, want a ready node", code, err, out)
	}
	checkTopology(t, s)
	n.stop()
}
