// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const noClock = "1970-01-01"

func TestAStartWithoutAClockServesAndHealsWhenTheTimeArrives(t *testing.T) {
	c := clockAt(noClock)
	o := options(t, c, "a.example")
	s := mustOpen(t, o)
	addr, ca := serve(t, s.TLSConfig()), s.CA()
	wantWarning(t, s, diag.CodeExpiry, "the clock shows 1970-01-01")
	for _, now := range []string{noClock, "1999-01-01", today, "2031-01-01", "2055-12-31"} {
		served(t, addr, client(ca, "a.example", at(now)))
	}
	mustCheck(t, s, false)
	c.set(today)
	mustCheck(t, s, true)
	if got, want := serverInfo(s).NotAfter, at(today).Add(serverLife); !got.Equal(want) {
		t.Errorf("got an end of %s, want %s", got, want)
	}
	if w := s.Warnings(); len(w) > 0 {
		t.Errorf("got warnings %q, want none once the time is known", texts(w))
	}
	for _, now := range []string{noClock, today} {
		served(t, addr, client(ca, "a.example", at(now)))
	}
	mustCheck(t, s, false)
}

func TestARestartWithoutAClockKeepsTheCertificate(t *testing.T) {
	c := clockAt(today)
	o := options(t, c)
	mustOpen(t, o)
	c.set("2031-05-05") // renewed long after this version was made
	mustOpen(t, o)
	before := filesIn(t, o.Dir)
	c.set(noClock)
	s := mustOpen(t, o)
	mustCheck(t, s, false)
	served(t, serve(t, s.TLSConfig()), client(s.CA(), "localhost", at("2031-05-05")))
	c.set("2031-05-06")
	mustCheck(t, s, false)
	if diff := cmp.Diff(before, filesIn(t, o.Dir)); diff != "" {
		t.Errorf("got other files (-before +after):\n%s", diff)
	}
}

func TestOtherNamesWithoutAClockAreServedToClientsWithOne(t *testing.T) {
	c := clockAt(today)
	o := options(t, c)
	mustOpen(t, o)
	c.set(noClock)
	o.Names = []string{"new.example"}
	s := mustOpen(t, o)
	served(t, serve(t, s.TLSConfig()), client(s.CA(), "new.example", at("2033-01-01")))
}

func TestAJumpAndBackKeepsTheCAAndEveryClient(t *testing.T) {
	for _, there := range []string{"2028-06-01", "2040-01-01", "2055-12-31", "2076-01-01", "2200-01-01", noClock} {
		c := clockAt(today)
		o := options(t, c)
		s := mustOpen(t, o)
		addr, ca := serve(t, s.TLSConfig()), s.CA()
		for range 2 {
			for _, now := range []string{there, today} {
				c.set(now)
				if _, err := s.Check(); err != nil {
					t.Fatal(err)
				}
				// A client with the right time, and one with the server's.
				served(t, addr, client(ca, "localhost", at(today)))
				if c.now().Before(caEnd(at(today))) {
					served(t, addr, client(ca, "localhost", c.now()))
				}
				again := mustOpen(t, o)
				if !bytes.Equal(again.CA(), ca) {
					t.Fatalf("%s: got another CA, want the first", there)
				}
				mustCheck(t, again, false)
			}
		}
		if got, most := serverInfo(s).NotAfter, at(today).Add(serverLife+aheadBy); got.After(most) {
			t.Errorf("%s: got an end of %s after coming back, want at most %s", there, got, most)
		}
	}
}

func TestACAOfAnyFirstStartIsValidToday(t *testing.T) {
	for _, first := range []string{noClock, "1980-01-01", "2025-12-31", today, "2076-01-01"} {
		c := clockAt(first)
		o := options(t, c)
		mustOpen(t, o)
		c.set(today)
		s := mustOpen(t, o)
		served(t, serve(t, s.TLSConfig()), client(s.CA(), "localhost", at(today)))
		ca := s.Info()[1]
		if years := ca.NotAfter.Sub(at(today)).Hours() / 24 / 365; ca.Name != CA || years < 20 {
			t.Errorf("%s: got a %s for %.1f years from today, want a CA for 20 or more", first, ca.Name, years)
		}
	}
}

// TestNearTheEndOfTheCANothingIsIssuedInVain keeps Check from issuing a
// certificate at every look: it can't be given a later end.
func TestNearTheEndOfTheCANothingIsIssuedInVain(t *testing.T) {
	c := clockAt(today)
	s := mustOpen(t, options(t, c))
	end := s.Info()[1].NotAfter
	c.setTime(end)
	mustCheck(t, s, false)
	c.setTime(end.Add(-100 * day))
	mustCheck(t, s, true)
	if got := serverInfo(s).NotAfter; !got.Equal(end) {
		t.Errorf("got an end of %s, want the CA's, %s", got, end)
	}
	wantWarning(t, s, diag.CodeExpiry, "the ca certificate")
	for _, left := range []time.Duration{100 * day, day, -day, -10000 * day} {
		c.setTime(end.Add(-left))
		mustCheck(t, s, false)
	}
	wantWarning(t, s, diag.CodeExpiry, "has expired")
}
