// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// crowd is who listens, as a test says.
type crowd struct {
	number uint64
	list   []Listener
	err    error // of Listening
	noList error // of Listeners
	takes  time.Duration
	during func() // while the list is read
	asked  int
	read   int
}

func (c *crowd) Interest(string, string) bool { return true }

func (c *crowd) Listening(string) (uint64, error) {
	c.asked++
	return c.number, c.err
}

func (c *crowd) Listeners(string) ([]Listener, error) {
	c.read++
	list := c.list
	if c.takes > 0 {
		<-time.After(c.takes)
	}
	if c.during != nil {
		c.during()
	}
	return list, c.noList
}

func TestMatchesAgreesWithTheServer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	subject := func(tokens []string) string {
		var out []string
		for range 1 + r.IntN(4) {
			out = append(out, tokens[r.IntN(len(tokens))])
		}
		return strings.Join(out, ".")
	}
	agreed := map[bool]int{}
	for range 50_000 {
		s, p := subject([]string{"a", "b", "ab", "*a"}), subject([]string{"a", "b", "ab", "*", "*a", ">"})
		if server.IsValidSubject(p) {
			agreed[sameMatch(t, p, s)]++
		}
	}
	if agreed[true] < 1000 || agreed[false] < 1000 {
		t.Errorf("compared: got %v, want many of both", agreed)
	}
}

func sameMatch(t *testing.T, pattern, subject string) bool {
	t.Helper()
	want := server.SubjectMatchesFilter(subject, pattern)
	if got := matches(pattern, []byte(subject)); got != want {
		t.Errorf("%q covers %q: got %v, want %v", pattern, subject, got, want)
	}
	return want
}

func FuzzMatches(f *testing.F) {
	for _, c := range [][2]string{{"a.*", "a.b"}, {">", "a"}, {"a.>", "a"}, {"*.*", "a.b.c"}, {"a.*b", "a.*b"}, {"a", "a.b"}, {"a.b", "a"}} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, pattern, subject string) {
		if server.IsValidSubject(pattern) && server.IsValidLiteralSubject(subject) {
			sameMatch(t, pattern, subject)
		}
	})
}

func TestAudienceIsReadAgainOnlyWhenItChanged(t *testing.T) {
	c := &crowd{number: 1}
	a := audience{in: c}
	now := time.Now()
	for i := range 10 {
		for range 3 {
			if !a.sure(now.Add(time.Duration(i) * time.Second)) {
				t.Fatal("not sure of an audience that was just read")
			}
		}
	}
	if c.asked != 10 || c.read != 1 {
		t.Errorf("got asked %d times and read %d times, want 10 and 1", c.asked, c.read)
	}
	c.number, c.list = 2, []Listener{{"a.*", true}}
	if !a.sure(now.Add(time.Minute)) || !a.heard([]byte("a.b")) || a.heard([]byte("b")) {
		t.Error("a client that subscribed is not known")
	}
	c.number, c.list = 3, nil
	if !a.sure(now.Add(2*time.Minute)) || a.heard([]byte("a.b")) {
		t.Error("a client that unsubscribed is not forgotten")
	}
}

func TestOnlyClientsAreAnAudience(t *testing.T) {
	c := &crowd{number: 1, list: []Listener{
		{"stream.>", false}, {"_INBOX.x.*", true}, {"_inbox.x", true}, {"_hf.in.S.>", true}, {"client.*", true}, {"_INBOXES", true},
	}}
	a := audience{in: c}
	if !a.sure(time.Now()) {
		t.Fatal("not sure")
	}
	for subject, want := range map[string]bool{
		"stream.a": false, "client.a": true, "client": false, "_INBOX.x.1": false, "_inbox.x": false, "_hf.in.S.a": false, "_INBOXES": true,
	} {
		if got := a.heard([]byte(subject)); got != want {
			t.Errorf("%s is heard: got %v, want %v", subject, got, want)
		}
	}
}

func TestAListThatTakesLongIsReadSeldom(t *testing.T) {
	c := &crowd{number: 1, takes: 20 * time.Millisecond}
	a := audience{in: c}
	now := time.Now()
	if !a.sure(now) {
		t.Fatal("not sure after the first reading")
	}
	c.number++
	if now = now.Add(shareOfLooking*c.takes - time.Nanosecond); a.sure(now) {
		t.Error("sure although somebody came or went since")
	}
	if now = now.Add(time.Minute); !a.sure(now) {
		t.Error("not sure although there was time to read again")
	}
	if c.read != 2 {
		t.Errorf("got %d readings, want 2", c.read)
	}
}

func TestASubscriptionDuringTheReadingIsNoticed(t *testing.T) {
	c := &crowd{number: 1}
	a := audience{in: c}
	c.during = func() { c.number, c.list, c.during = 2, []Listener{{"a", true}}, nil }
	now := time.Now()
	a.sure(now)
	if now = now.Add(time.Minute); !a.sure(now) || !a.heard([]byte("a")) {
		t.Error("a client that subscribed while the list was read is not known")
	}
}

func TestNothingIsSureWithoutTheServer(t *testing.T) {
	bad := errors.New("shut down")
	now := time.Now()
	a := audience{in: &crowd{err: bad}}
	if a.sure(now) {
		t.Error("sure without a number")
	}
	c := &crowd{number: 1, noList: bad}
	if a = (audience{in: c}); a.sure(now) || a.sure(now.Add(time.Minute)) {
		t.Error("sure without a list")
	}
	if c.noList = nil; !a.sure(now.Add(2 * time.Minute)) {
		t.Error("not sure although the server is back")
	}
}
