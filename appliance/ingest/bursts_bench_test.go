// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// burstBench is bursts with a model of their stream, and a clock.
type burstBench struct {
	t   *testing.T
	m   *model
	b   *bursts
	now time.Time
}

func newBurstBench(t *testing.T) *burstBench {
	t.Helper()
	m := newModel(t)
	m.maxSize = 8 << 20
	b := newBursts(Lane{Stream: modelStream, Room: mostWaitingBytes, ReplyPrefix: modelReplies}, m, &Stats{})
	return &burstBench{t: t, m: m, b: b, now: time.Unix(1_000_000, 0)}
}

// push takes in messages of one subject, named by their payloads.
func (b *burstBench) push(header string, payloads ...string) {
	for _, p := range payloads {
		b.pushFrame(laneMessage("a", "_INBOX."+p, header, p))
	}
}

func (b *burstBench) pushFrame(f frame) {
	b.m.sent[string(f.payload)] = f
	b.b.push(f, b.now)
}

func (b *burstBench) pump() { b.b.pump(b.now) }

// serve lets the server do everything, after a while.
func (b *burstBench) serve(after time.Duration) {
	b.now = b.now.Add(after)
	b.m.serve(b.b, b.now)
}

// gather has messages wait for each other from now on: there is nothing under way and
// nobody is waited for.
func (b *burstBench) gather() {
	b.t.Helper()
	b.push("", numbered("before", 2*probeEvery)...)
	b.pump()
	b.push("", "while", "meanwhile")
	b.serve(firstCycle)
	b.now = b.now.Add(firstCycle)
	b.pump()
	if b.serve(0); !b.b.together || len(b.b.under)+len(b.b.queue) > 0 {
		b.t.Fatal("nothing is put together although messages come while another one is under way")
	}
	b.now = b.now.Add(firstCycle)
	b.b.passOver = mostPassedOver
}

// waits wants so many messages to wait.
func (b *burstBench) waits(what string, want int) {
	b.t.Helper()
	if got := len(b.b.queue); got != want {
		b.t.Fatalf("%s: %d messages wait, want %d", what, got, want)
	}
}

// answers are what a publisher got.
func (b *burstBench) answers(payload string) []string {
	var out []string
	for _, r := range b.m.answers["_INBOX."+payload] {
		out = append(out, r.header+r.payload)
	}
	return out
}

// marksOf counts those of the messages for whose answers bursts wait.
func marksOf(msgs []forwarded) (n int) {
	for _, f := range msgs {
		if strings.HasPrefix(f.reply, modelReplies) {
			n++
		}
	}
	return n
}

// arrival is a message that is to come.
type arrival struct {
	at        time.Time
	publisher int
}

// circle is publishers that send their next message some time after the answer to the one
// before, and a server that takes the same time for one message as for many.
type circle struct {
	*burstBench
	takes time.Duration
	// parts says how many of so many messages the server takes at once when it was idle.
	parts func(n int) int
	// thinks says how long it is until the next message.
	thinks func(publisher int) time.Duration

	coming  []arrival
	waiting []string // payload of each publisher's message; "" for none
	sent    []int
	serving int // messages with the server
	until   time.Time
	idle    bool
	held    time.Duration // something waited, and nothing was under way
	longest int           // queue that was left by pump
}

func newCircle(t *testing.T, publishers int, takes time.Duration) *circle {
	c := &circle{
		burstBench: newBurstBench(t), takes: takes, parts: func(n int) int { return n },
		waiting: make([]string, publishers), sent: make([]int, publishers), idle: true,
	}
	for p := range publishers {
		c.coming = append(c.coming, arrival{c.now, p})
	}
	return c
}

// step goes on to the next thing that happens.
func (c *circle) step() {
	next := c.b.next()
	if c.serving > 0 && (next.IsZero() || c.until.Before(next)) {
		next = c.until
	}
	for _, a := range c.coming {
		if next.IsZero() || a.at.Before(next) {
			next = a.at
		}
	}
	if next.Before(c.now) {
		c.t.Fatalf("something was to be done %s ago", c.now.Sub(next))
	}
	if len(c.b.queue) > 0 && len(c.b.under) == 0 {
		c.held += next.Sub(c.now)
	}
	c.now = next
	c.arrive()
	if c.serving > 0 && !c.now.Before(c.until) {
		c.finish()
	}
	if c.b.busy() {
		c.pump()
	}
	c.longest = max(c.longest, len(c.b.queue))
	if n := len(c.m.inbox); c.serving == 0 && n > 0 {
		if c.serving = n; c.idle {
			c.serving = c.parts(n)
		}
		c.idle, c.until = false, c.now.Add(c.takes)
	}
	c.idle = c.serving == 0
}

func (c *circle) arrive() {
	rest := c.coming[:0]
	for _, a := range c.coming {
		if a.at.After(c.now) {
			rest = append(rest, a)
			continue
		}
		c.waiting[a.publisher] = fmt.Sprintf("%d-%d", a.publisher, c.sent[a.publisher])
		c.sent[a.publisher]++
		c.push("", c.waiting[a.publisher])
	}
	c.coming = rest
}

// finish answers what is with the server.
func (c *circle) finish() {
	c.m.process(c.serving)
	for c.serving = 0; len(c.m.replies) > 0; {
		c.m.deliver(c.b, 0, c.now)
	}
	for p, payload := range c.waiting {
		if got := len(c.answers(payload)); got == 0 || payload == "" {
			continue
		} else if got > 1 {
			c.t.Fatalf("message %s: got %d answers, want one", payload, got)
		}
		c.waiting[p] = ""
		c.coming = append(c.coming, arrival{c.now.Add(c.thinks(p)), p})
	}
}

// rounds goes on until each publisher has sent n more messages.
func (c *circle) rounds(n int) {
	c.t.Helper()
	want := slices.Clone(c.sent)
	steps := 0
	for p := range want {
		for ; c.sent[p] < want[p]+n; steps++ {
			if c.step(); steps > 100*n*len(c.sent) {
				c.t.Fatalf("publisher %d sent %d messages, not %d", p, c.sent[p]-want[p], n)
			}
		}
	}
}

// ordered wants each publisher's messages stored once and in order.
func (c *circle) ordered() {
	c.t.Helper()
	at := make([]int, len(c.sent))
	for _, f := range c.m.stored {
		var p, n int
		if _, err := fmt.Sscanf(f.payload, "%d-%d", &p, &n); err != nil {
			c.t.Fatal(err)
		}
		if n != at[p] {
			c.t.Fatalf("publisher %d: message %d is stored where %d was to be", p, n, at[p])
		}
		at[p]++
	}
}
