// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ends are the messages that end a batch without being one of it.
func (b *bench) ends() (out []forwarded) {
	for _, f := range b.m.inbox {
		if f.end != "" {
			out = append(out, f)
		}
	}
	return out
}

func TestWhoSubscribesToAnOpenBatchDoesNotHearItsEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		heard  []string
		within string // where the end may go; "" for nowhere
	}{
		{"one subject", []string{"a"}, "b"},
		{"all subjects", []string{"a", "b"}, ""},
	} {
		b := newBench(t)
		b.group(32)
		b.push("", "one")
		b.l.push(laneMessage("b", "_INBOX.two", "", "two"), b.now)
		b.l.push(laneMessage("a", "_INBOX.three", "", "three"), b.now)
		for len(b.l.open.msgs) == 0 && b.l.batch == nil {
			// So many that they go into the batch before it is to be committed.
			b.push("", numbered("more", handful)...)
			b.pump()
		}
		if b.l.batch != nil {
			t.Fatal("the batch was committed at once")
		}
		for _, s := range c.heard {
			b.m.heard[s] = true
		}
		b.now = b.l.next()
		b.pump()
		for _, f := range b.ends() {
			if f.subject != c.within {
				t.Errorf("%s: got the end of a batch on %q", c.name, f.subject)
			}
		}
		b.serve(0)
		b.pump()
		b.serve(0)
		want := slices.Concat([]string{"one", "two", "three"}, numbered("more", handful))
		b.same(c.name, b.m.storedPayloads()[32:], want)
	}
}

func TestALongSubjectDoesNotCutTheConnection(t *testing.T) {
	lanes := lanesOf("A", "a.*")
	l := newLab(t, false, lanes)
	l.stream(jetstream.StreamConfig{Name: "A", Subjects: []string{"a.*"}})
	l.ingest(lanes)
	before := l.ingestClients()
	nc := l.connect()
	inbox := nc.NewInbox()
	sub := must[*nats.Subscription](t)(nc.SubscribeSync(inbox))
	// The longest that the server takes from a client, in its line of 4096 bytes.
	subject := "a." + strings.Repeat("x", server.MAX_CONTROL_LINE_SIZE-len("a. "+inbox+" 1"))
	if err := nc.PublishRequest(subject, inbox, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.NextMsg(short); err != nil {
		t.Errorf("publish on a long subject: %v", err)
	} else if m.Header.Get("Status") == "" && !strings.Contains(string(m.Data), `"seq":`) {
		t.Errorf("publish on a long subject: got %q", m.Data)
	}
	if ack, err := l.js().Publish(t.Context(), "a.0", nil); err != nil {
		t.Errorf("publish after it: got %v, error %v", ack, err)
	}
	if got := l.ingestClients(); !slices.Equal(got, before) {
		t.Errorf("connections of ingest: got %v, want still %v", got, before)
	}
}
