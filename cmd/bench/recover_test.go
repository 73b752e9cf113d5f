// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStoresToRecoverHaveTheirSize(t *testing.T) {
	var names []string
	for _, s := range shapes(10 << 30) {
		names = append(names, s.String())
		if got := int64(s.each()*s.streams) * int64(s.bytes); got < s.size-s.size/100 || got > s.size {
			t.Errorf("%s: got %d bytes of messages, want %d", s.name, got, s.size)
		}
	}
	if diff := cmp.Diff([]string{
		"10.0 GiB in messages of 64.0 KiB in one stream", "10.0 GiB in messages of 64.0 KiB in 8 streams", "2.00 GiB in messages of 1.00 KiB in 8 streams",
	}, names); diff != "" {
		t.Errorf("stores (-want +got):\n%s", diff)
	}
	if got := registry(&lab{}); len(got) != len(registry(&lab{store: 1 << 30}))-3 {
		t.Errorf("got %d measurements without -store, want none of a recovery", len(got))
	}
}

func TestLinesForSystemdAreKept(t *testing.T) {
	n, err := listenAsSystemd(filepath.Join(t.TempDir(), "n"))
	if err != nil {
		t.Skipf("skipping: %v", err)
	}
	c, err := net.Dial("unixgram", n.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, text := range []string{"EXTEND_TIMEOUT_USEC=1\nSTATUS=one", "WATCHDOG=1", "READY=1\nSTATUS=two"} {
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for deadline := time.After(10 * time.Second); len(got) < 2; {
		got = nil
		for _, l := range n.lines() {
			got = append(got, l.text)
		}
		select {
		case <-deadline:
			t.Fatalf("got %q, want both lines", got)
		default:
		}
	}
	if diff := cmp.Diff([]string{"one", "two"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(n.path); !os.IsNotExist(err) {
		t.Errorf("got %v, want the socket gone", err)
	}
}
