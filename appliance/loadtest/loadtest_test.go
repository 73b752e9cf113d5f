// SPDX-License-Identifier: Apache-2.0

package loadtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// small is a load that takes a moment.
func small() Load {
	return Load{Publishers: 3, Workers: 2, Size: 100, For: 200 * time.Millisecond, Space: 16 << 20, WorkQueue: true}
}

// target is a server of this test alone.
func target(t *testing.T) (Target, jetstream.JetStream) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(answerLimit) {
		t.Fatal("got no server, want one")
	}
	to := Target{URL: s.ClientURL()}
	nc, js, err := to.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return to, js
}

func direct(t *testing.T, to Target) *Direct {
	t.Helper()
	d, err := NewDirect(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func unwatched(string, time.Duration, func() int) func(*Phase) { return func(*Phase) {} }

// streams are the names of all streams.
func streams(t *testing.T, js jetstream.JetStream) []string {
	t.Helper()
	var names []string
	all := js.StreamNames(t.Context())
	for name := range all.Name() {
		names = append(names, name)
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestRunCountsEveryMessageAndLeavesNothing(t *testing.T) {
	to, js := target(t)
	for name, change := range map[string]func(*Load){
		"work queue": func(*Load) {},
		"limits":     func(l *Load) { l.WorkQueue = false },
		"smallest":   func(l *Load) { l.Size, l.Publishers, l.Workers = MinSize, 1, 1 },
	} {
		l := small()
		change(&l)
		var seen []string
		got, err := Run(t.Context(), to, direct(t, to), l, func(name string, _ time.Duration, messages func() int) func(*Phase) {
			return func(p *Phase) {
				if p == nil || p.Messages != messages() {
					t.Errorf("%s: got %v of %s and %d messages, want the same number", name, p, name, messages())
				}
				seen = append(seen, name)
			}
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]string{PhasePublish, PhaseConsume, PhaseEndToEnd}, seen); diff != "" {
			t.Errorf("%s: got other phases (-want +got):\n%s", name, diff)
		}
		c := got.Counts
		sum := got.Phases[0].Messages + got.Phases[2].Messages
		if c.Acknowledged != sum || c.Stored != sum || c.Consumed != sum || got.Phases[0].Messages == 0 || got.Phases[2].Messages == 0 {
			t.Errorf("%s: got %+v and phases %+v, want equal counts above 0", name, c, got.Phases)
		}
		if p := got.Phases; p[0].Ack == nil || p[0].Delivery != nil || p[2].Ack == nil || p[2].Delivery == nil || p[2].Delivery.P50 <= 0 {
			t.Errorf("%s: got phases %+v, want the latencies of what they do", name, p)
		}
		if left := streams(t, js); len(left) > 0 {
			t.Errorf("%s: got streams %q after the run, want none", name, left)
		}
	}
}

func TestRunEndsEarlyWhenTheStreamIsFull(t *testing.T) {
	to, _ := target(t)
	l := small()
	l.For, l.Space, l.WorkQueue = 30*time.Second, 100_000, false
	got, err := Run(t.Context(), to, direct(t, to), l, unwatched)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2} {
		if p := got.Phases[i]; !p.Full || p.Messages < 100 || p.Took > l.For/2 {
			t.Errorf("got %+v, want it ended by the space", p)
		}
	}
}

// TestRunFindsWhatIsMissing removes, and adds, a message between two phases.
func TestRunFindsWhatIsMissing(t *testing.T) {
	to, js := target(t)
	for name, c := range map[string]struct {
		meddle func(s jetstream.Stream) error
		want   string
	}{
		"removed": {func(s jetstream.Stream) error { return s.DeleteMsg(t.Context(), 1) }, "1 acknowledged and not delivered"},
		"added": {func(s jetstream.Stream) error {
			subject := strings.TrimSuffix(s.CachedInfo().Config.Subjects[0], ">") + "x"
			_, err := js.Publish(t.Context(), subject, make([]byte, small().Size))
			return err
		}, "1 delivered and never acknowledged"},
	} {
		_, err := Run(t.Context(), to, direct(t, to), small(), func(phase string, _ time.Duration, _ func() int) func(*Phase) {
			if phase == PhaseConsume {
				s, err := js.Stream(t.Context(), streams(t, js)[0])
				if err = errors.Join(err, c.meddle(s)); err != nil {
					t.Fatal(err)
				}
			}
			return func(*Phase) {}
		})
		if diag.CodeOf(err) != diag.CodeMiscount || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestRunRemovesTheStreamWhenItIsStopped(t *testing.T) {
	to, js := target(t)
	for _, at := range []string{PhasePublish, PhaseConsume, PhaseEndToEnd} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Run(ctx, to, direct(t, to), small(), func(phase string, _ time.Duration, _ func() int) func(*Phase) {
			if phase == at {
				cancel()
			}
			return func(*Phase) {}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want that it was cancelled", at, err)
		}
		if left := streams(t, js); len(left) > 0 {
			t.Errorf("%s: got streams %q after a stop, want none", at, left)
		}
	}
}

func TestRunLeavesOtherStreamsAlone(t *testing.T) {
	to, js := target(t)
	// Not made by a run, whatever its name is; and one that is on the subjects.
	for name, subject := range map[string]string{StreamPrefix + "mine": "mine.>", "ORDERS": "orders.>"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Run(t.Context(), to, direct(t, to), small(), unwatched); err != nil {
		t.Fatal(err)
	}
	if left := streams(t, js); len(left) != 2 {
		t.Errorf("got streams %q, want both of before", left)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ALL", Subjects: []string{subjectPrefix + ">"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), to, direct(t, to), small(), unwatched); diag.CodeOf(err) != diag.CodeNoRoom || diag.Hint(err) == "" {
		t.Errorf("got %v where another stream has the subjects, want that there is no room, with a hint", err)
	}
}
