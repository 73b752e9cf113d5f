// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLogLevelsFollowTheReader(t *testing.T) {
	var fatal string
	h := &logged{}
	key := "A" + strings.Repeat("B", 55)
	names := Names{Account: func(k string) string {
		if k == key {
			return "shop"
		}
		return ""
	}}
	names.Subjects = func(text string) string { return strings.ReplaceAll(text, "inner.", "") }
	l := newServerLog(slog.New(h), names, newRecovery(names), notRefused, func(f string, a ...any) { fatal = fmt.Sprintf(f, a...) })

	l.Noticef("  Starting restore for stream '%s > %s'", key, "ORDERS")
	l.Noticef("127.0.0.1:1 - cid:7 - Slow Consumer Detected: MaxPending of %d Exceeded", 5)
	l.Noticef("  Restoring partial batch write for stream '%s > %s' (seq %d to %d)", key, "ORDERS", 1, 2)
	l.Warnf("Account [%s] fetch took %v", key, time.Second)
	l.Warnf("no room for %q", "inner.orders")
	l.Errorf("10.0.0.1:6222 - rid:12 - Error flushing: %v", syscall.EPIPE)
	l.Errorf("Error trying to connect to route (attempt %v): %v", 1, syscall.ECONNREFUSED)
	l.Errorf("unknown account %s", "A"+strings.Repeat("C", 55))
	l.Debugf("%s", "never")
	l.Tracef("%s", "never")
	l.Fatalf("Can't start JetStream: %v", "why")

	want := []string{
		"DEBUG text=Starting restore for stream 'shop > ORDERS'",
		"WARN text=127.0.0.1:1 - cid:7 - Slow Consumer Detected: MaxPending of 5 Exceeded",
		"INFO text=Restoring partial batch write for stream 'shop > ORDERS' (seq 1 to 2)",
		"WARN text=Account [shop] fetch took 1s",
		`WARN text=no room for "orders"`,
		"WARN text=10.0.0.1:6222 - rid:12 - Error flushing: broken pipe",
		"WARN text=Error trying to connect to route (attempt 1): connection refused",
		"ERROR text=unknown account A" + strings.Repeat("C", 55),
	}
	if diff := cmp.Diff(want, h.all()); diff != "" {
		t.Errorf("log differs (-want +got):\n%s", diff)
	}
	if want := "Can't start JetStream: why"; fatal != want {
		t.Errorf("got fatal %q, want %q", fatal, want)
	}
}

func TestRepeatsAreCountedInsteadOfWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &logged{}
		l := newServerLog(slog.New(h), Names{}, newRecovery(Names{}), notRefused, nil)
		for cid := range 100 {
			l.Errorf(fmt.Sprintf("10.0.0.1:%d - cid:%d - TLS oddity", 40_000+cid, cid))
		}
		l.Errorf("something else")
		time.Sleep(repeatWindow) //nolint:forbidigo // synctest's clock, not a wait
		l.Errorf("10.0.0.1:50000 - cid:100 - TLS oddity")
		l.Errorf("10.0.0.1:50001 - cid:101 - TLS oddity")
		want := []string{
			"ERROR text=10.0.0.1:40000 - cid:0 - TLS oddity",
			"ERROR text=something else",
			"ERROR text=10.0.0.1:50000 - cid:100 - TLS oddity suppressed=99",
		}
		if diff := cmp.Diff(want, h.all()); diff != "" {
			t.Errorf("log differs (-want +got):\n%s", diff)
		}
	})
}

func TestEachStreamOfOneWarningIsNamed(t *testing.T) {
	h := &logged{}
	l := newServerLog(slog.New(h), Names{}, newRecovery(Names{}), notRefused, nil)
	for c := range textsPerFormat + 20 {
		l.Warnf("  Error recreating stream %q: %v", strings.Repeat("x", c+1), "why")
	}
	if got := len(h.all()); got != textsPerFormat {
		t.Errorf("got %d lines for %d streams, want %d", got, textsPerFormat+20, textsPerFormat)
	}
}

func TestRepeatsForgetWhatIsOld(t *testing.T) {
	now := time.Unix(0, 0)
	r := newRepeats(func() time.Time { return now })
	for i := range 3 * mostRemembered {
		r.allow("f", strings.Repeat("x", i%100)+strings.Repeat("y", i/100))
	}
	if got := len(r.seen); got > mostRemembered+2 {
		t.Errorf("got %d remembered lines, want at most %d", got, mostRemembered+2)
	}
}

func notRefused(string, []any) bool { return false }
