// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// modelFor is when the last random world begins.
const modelFor = 8 * time.Second

// modelStreams are what random publishers write to; every one is full now and then.
var modelStreams = []struct{ name, config string }{
	{"LIMITS", "max_bytes: 64MiB, allow_atomic: true"},
	{"FULL", "max_bytes: 64MiB, max_msgs: 150, discard: new"},
	{"TIGHT", "max_bytes: 48KiB, discard: new, max_msg_size: 4KiB"},
	{"NEWEST", "max_bytes: 64MiB, max_msgs: 60, discard: old"},
	{"PERSUBJECT", "max_bytes: 64MiB, max_msgs_per_subject: 40, discard_new_per_subject: true, discard: new"},
	{"QUEUE", "max_bytes: 64MiB, max_msgs: 200, discard: new, retention: workqueue, consumers: {work: {}}"},
}

// TestTransparencyOfRandomPublishersIsExplained has publishers send what they like, at
// random moments, and explains every answer by what the stream holds in the end.
func TestTransparencyOfRandomPublishersIsExplained(t *testing.T) {
	var text strings.Builder
	text.WriteString("    users: {admin: {inbox: shared}}\n    streams:\n")
	for _, m := range modelStreams {
		fmt.Fprintf(&text, "      %s: {group_commit: GROUP, subjects: ['%s.>'], %s}\n", m.name, strings.ToLower(m.name), m.config)
	}
	_, on := twoSides(t, text.String())
	first, end := uint64(1), time.Now().Add(modelFor)
	if d, err := time.ParseDuration(os.Getenv(testForEnv)); err == nil {
		first, end = uint64(time.Now().UnixNano()%1e9), time.Now().Add(d)
	}
	only, err := strconv.ParseUint(os.Getenv(testSeedEnv), 10, 64)
	if err == nil {
		first, end = only, time.Now()
	}
	grouped := 0
	for n := first; n == first || time.Now().Before(end); n++ {
		t.Run(strconv.FormatUint(n, 10), func(t *testing.T) {
			t.Logf("repeat with %s=%d", testSeedEnv, n)
			m := modelStreams[n%uint64(len(modelStreams))]
			w := &randomWorld{t: t, side: on, stream: m.name, seed: n, acked: map[uint64]bool{}}
			grouped += w.run()
		})
		if t.Failed() {
			return
		}
	}
	if on.grouped && grouped == 0 {
		t.Error("got no message in a group, want many")
	}
}

// randomWorld is a stream, its publishers, and what they know.
type randomWorld struct {
	t      *testing.T
	side   *side
	stream string
	seed   uint64
	start  uint64 // last sequence before
	mu     sync.Mutex
	sent   []*sending
	acked  map[uint64]bool // by workers
	purged bool
}

// sending is a message, in the order of its publisher, and what came of it.
type sending struct {
	publisher, n  int
	subject       string
	id, expect    string
	bytes         int
	wrong         bool // an expectation that can't be right
	answers       []answer
	data          string
	silent, large bool
}

func (w *randomWorld) run() (grouped int) {
	nc, _ := w.side.connect(w.t, "admin")
	// The stream starts empty, and remembers Nats-Msg-Ids of other worlds: these have the seed in them.
	if err := call(nc, "STREAM.PURGE."+w.stream, nil, &struct{}{}); err != nil {
		w.t.Fatal(err)
	}
	_, state, err := stored(nc, w.stream)
	if err != nil || state == nil {
		w.t.Fatalf("got state %v, %v, want the stream", state, err)
	}
	w.start = state.LastSeq
	g := rand.New(rand.NewPCG(w.seed, 0))
	var publishers, others sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 + g.IntN(20) {
		conn, _ := w.side.connect(w.t, "admin")
		own := rand.New(rand.NewPCG(w.seed, uint64(i)+1))
		publishers.Go(func() { w.publish(conn, own, i) })
	}
	if w.stream == "QUEUE" {
		for range 2 {
			others.Go(func() { w.work(stop) })
		}
	}
	if g.IntN(3) == 0 {
		w.purged = true
		others.Go(func() {
			<-time.After(time.Duration(g.IntN(80)) * time.Millisecond)
			_ = call(nc, "STREAM.PURGE."+w.stream, nil, &struct{}{})
		})
	}
	publishers.Wait()
	close(stop)
	others.Wait()
	all, state, err := stored(nc, w.stream)
	if err != nil {
		w.t.Fatal(err)
	}
	w.explain(all, state)
	for _, m := range all {
		if m.grouped() {
			grouped++
		}
	}
	return grouped
}

// publish sends in bursts and waits for the answers of each.
func (w *randomWorld) publish(nc *nats.Conn, g *rand.Rand, me int) {
	inbox := nats.NewInbox()
	var mine []*sending
	sub, err := nc.Subscribe(inbox+".*", func(m *nats.Msg) {
		n, _ := strconv.Atoi(m.Subject[len(inbox)+1:])
		a, err := readAnswer(m)
		if err != nil {
			w.t.Errorf("got %q for an answer: %v", m.Data, err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		mine[n].answers = append(mine[n].answers, a)
	})
	if err != nil {
		w.t.Error(err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	for range 2 + g.IntN(5) {
		from := len(mine)
		for range 1 + g.IntN(25) {
			s := w.choose(g, me, len(mine))
			w.mu.Lock()
			mine, w.sent = append(mine, s), append(w.sent, s)
			w.mu.Unlock()
			m := &nats.Msg{Subject: s.subject, Data: []byte(s.data), Header: nats.Header{}}
			if s.id != "" {
				m.Header.Set("Nats-Msg-Id", s.id)
			}
			if s.expect != "" {
				name, value, _ := strings.Cut(s.expect, ": ")
				m.Header.Set(name, value)
			}
			if !s.silent {
				m.Reply = inbox + "." + strconv.Itoa(s.n)
			}
			if err := nc.PublishMsg(m); err != nil {
				w.t.Error(err)
			}
		}
		if err := waitFor(patience, func() error {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, s := range mine[from:] {
				if !s.silent && len(s.answers) == 0 {
					return fmt.Errorf("got no answer for message %d of publisher %d (%s, %s), want one", s.n, me, s.id, s.expect)
				}
			}
			return nil
		}); err != nil {
			w.t.Error(err)
			return
		}
	}
}

// choose is what a publisher sends next. Publishers share half of their Nats-Msg-Ids.
func (w *randomWorld) choose(g *rand.Rand, me, n int) *sending {
	s := &sending{publisher: me, n: n, subject: fmt.Sprintf("%s.%d", strings.ToLower(w.stream), g.IntN(4))}
	size := g.IntN(300)
	switch g.IntN(12) {
	case 0:
		s.id = fmt.Sprintf("w%d-%d", w.seed, g.IntN(40))
	case 1:
		s.id = fmt.Sprintf("w%d-%d-%d", w.seed, me, g.IntN(6))
	case 2:
		s.expect, s.wrong = "Nats-Expected-Stream: OTHER", true
	case 3:
		s.expect = "Nats-Expected-Stream: " + w.stream
	case 4:
		s.expect, s.wrong = "Nats-Expected-Last-Subject-Sequence: 987654321", true
	case 5:
		s.expect = fmt.Sprintf("Nats-Expected-Last-Sequence: %d", w.start+uint64(g.IntN(50)))
	case 6:
		size = 5000
		s.large = w.stream == "TIGHT"
	case 7:
		s.silent = true
	}
	s.data = fmt.Sprintf("%d/%d/%d %s", w.seed, me, n, strings.Repeat("x", size))
	return s
}

// work acknowledges what it fetches.
func (w *randomWorld) work(stop <-chan struct{}) {
	nc, _ := w.side.connect(w.t, "admin")
	js, err := jetstream.New(nc)
	if err != nil {
		w.t.Error(err)
		return
	}
	c, err := js.Consumer(w.t.Context(), w.stream, "work")
	if err != nil {
		w.t.Error(err)
		return
	}
	for {
		select {
		case <-stop:
			return
		default:
		}
		batch, err := c.Fetch(20, jetstream.FetchMaxWait(50*time.Millisecond))
		if err != nil {
			w.t.Error(err)
			return
		}
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				w.t.Error(err)
				return
			}
			w.mu.Lock()
			w.acked[meta.Sequence.Stream] = true
			w.mu.Unlock()
			if err := m.Ack(); err != nil {
				w.t.Error(err)
			}
		}
	}
}

// explain compares answers with the stream.
func (w *randomWorld) explain(all []written, state *jetstream.StreamState) {
	bySeq, byData := map[uint64]written{}, map[string]uint64{}
	for _, m := range all {
		if at, twice := byData[string(m.Data)]; twice {
			w.t.Errorf("got %s at %d and at %d, want it once", short(m.Data), at, m.Seq)
		}
		bySeq[m.Seq], byData[string(m.Data)] = m, m.Seq
	}
	taken, byID := map[uint64]*sending{}, map[string]uint64{}
	lastOf := map[int]uint64{}
	accepted := uint64(0)
	for _, s := range w.sent {
		if len(s.answers) > 1 || len(s.answers) == 1 && s.silent {
			w.t.Errorf("got answers %+v for one message, want one at most", s.answers)
		}
		if s.silent {
			continue
		}
		if len(s.answers) == 0 {
			continue // reported by the publisher
		}
		a := s.answers[0]
		if a.kind() != "ok" {
			if a.kind() != "dup" {
				w.refused(s, a)
			}
			if at, kept := byData[s.data]; kept {
				w.t.Errorf("got %s kept at %d, want it refused as its answer says: %+v", short([]byte(s.data)), at, a)
			}
			continue
		}
		accepted++
		if other := taken[a.Seq]; other != nil {
			w.t.Errorf("got sequence %d for %s and for %s, want one message", a.Seq, short([]byte(other.data)), short([]byte(s.data)))
		}
		taken[a.Seq] = s
		w.kept(s, a, bySeq, state, lastOf)
		if s.id != "" {
			if at, twice := byID[s.id]; twice {
				w.t.Errorf("got Nats-Msg-Id %s kept at %d and at %d, want it once", s.id, at, a.Seq)
			}
			byID[s.id] = a.Seq
		}
	}
	for _, s := range w.sent {
		if len(s.answers) == 1 && s.answers[0].Duplicate && byID[s.id] != s.answers[0].Seq {
			w.t.Errorf("got a duplicate of %d for Nats-Msg-Id %s, want of %d", s.answers[0].Seq, s.id, byID[s.id])
		}
	}
	w.silently(bySeq, taken, &accepted)
	if got := state.LastSeq - w.start; got < accepted {
		w.t.Errorf("got %d sequences used, want %d at least", got, accepted)
	}
}

// kept checks a message that was accepted.
func (w *randomWorld) kept(s *sending, a answer, bySeq map[uint64]written, state *jetstream.StreamState, lastOf map[int]uint64) {
	if s.wrong || s.large {
		w.t.Errorf("got %+v for %s (%s), want it refused", a, short([]byte(s.data)), s.expect)
	}
	if number, exact := strings.CutPrefix(s.expect, "Nats-Expected-Last-Sequence: "); exact && number != fmt.Sprint(a.Seq-1) {
		w.t.Errorf("got sequence %d for a message with %s", a.Seq, s.expect)
	}
	if a.Seq <= lastOf[s.publisher] {
		w.t.Errorf("got sequence %d for publisher %d after %d, want its order kept", a.Seq, s.publisher, lastOf[s.publisher])
	}
	lastOf[s.publisher] = a.Seq
	m, there := bySeq[a.Seq]
	switch {
	case there && (string(m.Data) != s.data || m.Subject != s.subject):
		w.t.Errorf("got %s at %d, want %s %s", m, a.Seq, s.subject, short([]byte(s.data)))
	case !there && a.Seq >= state.FirstSeq && !w.acked[a.Seq] && !w.purged && w.stream != "NEWEST":
		w.t.Errorf("got nothing at %d, want %s", a.Seq, short([]byte(s.data)))
	case !there && a.Seq < state.FirstSeq && !w.acked[a.Seq] && !w.purged && w.stream != "NEWEST":
		w.t.Errorf("got the stream begin at %d, want it hold %d", state.FirstSeq, a.Seq)
	case !there && w.stream == "NEWEST" && !w.purged && a.Seq+60 > state.LastSeq:
		w.t.Errorf("got nothing at %d of %d, want the newest 60", a.Seq, state.LastSeq)
	}
}

// refused checks that a refusal has a reason.
func (w *randomWorld) refused(s *sending, a answer) {
	reasons := map[string]bool{
		"10060": strings.HasSuffix(s.expect, "OTHER"),
		"10071": strings.HasPrefix(s.expect, "Nats-Expected-Last"),
		"10054": s.large,
		"10077": slices.Contains([]string{"FULL", "TIGHT", "PERSUBJECT", "QUEUE"}, w.stream),
	}
	if !reasons[a.kind()] {
		w.t.Errorf("got %+v for %s (id %q, %q), want one of %v", a, short([]byte(s.data)), s.id, s.expect, slices.Sorted(maps.Keys(reasons)))
	}
}

// silently checks that nothing is in the stream that nobody sent.
func (w *randomWorld) silently(bySeq map[uint64]written, taken map[uint64]*sending, accepted *uint64) {
	quiet := map[string]bool{}
	for _, s := range w.sent {
		if s.silent {
			quiet[s.data] = true
		}
	}
	for seq, m := range bySeq {
		if quiet[string(m.Data)] {
			*accepted++
		} else if taken[seq] == nil {
			w.t.Errorf("got %s at %d, want nothing that no answer told of", m, seq)
		}
	}
}
