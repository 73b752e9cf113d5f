// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestTheStreamIsNotLedToAnswerInPlaceOfItself(t *testing.T) {
	b := newBench(t)
	b.group(32)
	token := b.l.token + 1 // of the next batch
	b.l.push(laneMessage("a", string(b.l.replyTo(token)), "Nats-Expected-Stream: S", "forged"), b.now)
	for range 4 {
		b.now = b.now.Add(b.l.cost.fixed)
		b.pump()
		b.push("", numbered(fmt.Sprint("victim", b.now.UnixNano()), 32)...)
		b.serve(0)
	}
	b.same("refused batches", b.l.stats.Fallbacks.Load(), uint64(0))
	for _, f := range b.m.stored {
		if f.payload == "forged" && f.reply != "" {
			t.Errorf("a message with the reply %q went to the stream as it is", f.reply)
		}
	}
}

// answersOf returns where the present connection of ingest is answered.
func (l *lab) answersOf() string {
	l.t.Helper()
	sz := must[*server.Subsz](l.t)(l.server.Subsz(&server.SubszOptions{Account: l.account, Subscriptions: true, Limit: 1000}))
	for _, s := range sz.Subs {
		if rest, ok := strings.CutSuffix(s.Subject, ".>"); ok && strings.HasPrefix(rest, answerPrefix) {
			return rest
		}
	}
	l.t.Fatal("ingest listens to no answers")
	return ""
}

func TestAPublisherDoesNotAnswerOthers(t *testing.T) {
	lanes := lanesOf("A", "a.*")
	l := newLab(t, true, lanes)
	st := l.stream(jetstream.StreamConfig{Name: "A", Subjects: []string{"a.*"}})
	i := l.ingest(lanes)
	ld := l.publish(t, 16, "a", 10*time.Second)
	eventually(t, 20*time.Second, func() error {
		if got := i.Accounts()["A"].Grouped.Load(); got < 50 {
			return fmt.Errorf("%d messages were grouped", got)
		}
		return nil
	})
	answers, nc := l.answersOf(), l.connect()
	alone := nats.Header{"Nats-Expected-Stream": {"A"}} // so that the stream itself answers
	for range 6 {
		for token := range 150 {
			m := &nats.Msg{Subject: "a.x", Reply: fmt.Sprint(answers, ".2.", token), Header: alone}
			if err := nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		ld.more(1)
	}
	ld.more(1)
	ld.verify(l, "A")
	if got := ld.failures(); len(got) > 0 {
		t.Errorf("publishers: got %v", got)
	}
	if got := i.Accounts()["A"].Fallbacks.Load(); got != 0 {
		t.Errorf("refused batches: got %d, want 0", got)
	}
	session := strings.TrimPrefix(answers, answerPrefix)
	for seq := uint64(1); ; seq++ {
		m := must[*jetstream.RawStreamMsg](t)(st.GetMsg(t.Context(), seq))
		if id := m.Header.Get(batchIDHeader); strings.Contains(id, session) {
			t.Fatalf("batch ID %q tells where answers go: %q", id, answers)
		} else if id != "" {
			break
		}
	}
}
