// SPDX-License-Identifier: Apache-2.0

//go:build unix

package service

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// feed runs Feed until the test ends it.
func feed(t *testing.T, alive func(context.Context) error, tell func(error)) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		NewNotifier().Feed(ctx, alive, tell)
	}()
	return func() {
		cancel()
		wait(t, "Feed", done)
	}
}

func never(error) {}

func TestFeedGivesSignsOfLifeWhileAlive(t *testing.T) {
	read := listenAsSystemd(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	end := feed(t, func(context.Context) error { return nil }, func(err error) { t.Errorf("got %v told, want nothing", err) })
	for range 5 {
		if got := read(); got != "WATCHDOG=1" {
			t.Errorf("got %q, want a sign of life", got)
		}
	}
	end()
}

func TestFeedBoundsTheQuestionAndIsSilentWithoutAnAnswer(t *testing.T) {
	const limit = 40 * time.Millisecond
	name := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(limit.Microseconds(), 10))
	ill := errors.New("no answer")
	var told []error
	asked := 0
	silent, heard := make(chan struct{}), make(chan struct{})
	end := feed(t, func(ctx context.Context) error {
		switch asked++; asked {
		case 1, 2, 3:
			deadline, ok := ctx.Deadline()
			if left := time.Until(deadline); !ok || left > limit/2 {
				t.Errorf("got %v for an answer, want at most half of WatchdogSec", left)
			}
			<-ctx.Done()
			return ill
		case 4:
			close(silent)
			<-heard
		}
		return nil
	}, func(err error) { told = append(told, err) })
	wait(t, "silence", silent)
	// What Feed has sent is in the socket already: nothing is on its way.
	buf := make([]byte, 1024)
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(buf); err == nil {
		t.Errorf("got %q while nothing answered, want silence", buf[:n])
	}
	close(heard)
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "WATCHDOG=1" {
		t.Errorf("got %q, %v, want a sign of life after an answer", buf[:n], err)
	}
	end()
	if len(told) != 2 || !errors.Is(told[0], ill) || told[1] != nil {
		t.Errorf("got %v told, want the illness once and its end once", told)
	}
}

func TestFeedEndsAtOnceWhenNobodyWatches(t *testing.T) {
	for name, env := range map[string][3]string{
		"no watchdog":      {"/run/notify", "", ""},
		"another process":  {"/run/notify", "60000000", "1"},
		"no socket":        {"", "60000000", ""},
		"no number":        {"/run/notify", "soon", ""},
		"zero":             {"/run/notify", "0", ""},
		"negative":         {"/run/notify", "-1", ""},
		"more than a life": {"/run/notify", "9223372036854775807", ""},
	} {
		t.Setenv("NOTIFY_SOCKET", env[0])
		t.Setenv("WATCHDOG_USEC", env[1])
		t.Setenv("WATCHDOG_PID", env[2])
		NewNotifier().Feed(t.Context(), func(context.Context) error {
			t.Errorf("%s: got a question, want none", name)
			return nil
		}, never)
	}
}
