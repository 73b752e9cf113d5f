// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"bytes"
	le "encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// verified runs `holdfast verify` and returns its answer and exit code.
func (n *node) verified(args ...string) (verifyAnswer, int) {
	n.t.Helper()
	cmd := n.command(append([]string{"verify", "--config", "holdfast.yaml", "--output", "json"}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	var out verifyAnswer
	if bad := json.Unmarshal(text, &out); bad != nil {
		n.t.Fatalf("got %v, %v and %q from verify", err, bad, errs.String())
	}
	return out, cmd.ProcessState.ExitCode()
}

// TestProcessVerifyFindsAndMends damages the store of a stopped node where nothing tells
// of it, and finds that stopped and running.
func TestProcessVerifyFindsAndMends(t *testing.T) {
	t.Parallel()
	// What may be a duplicate is read by each start, and the last block.
	config := strings.Replace(shop, "duplicate_window: 10m", "duplicate_window: 100ms", 1)
	n := newNode(t, strings.Replace(config, "max_bytes: 64MiB", "max_bytes: 120000", 1)).start()
	js := n.jetStream()
	for range 150 {
		publish(t, js, "orders.one", strings.Repeat("order ", 100))
		publish(t, js, "jobs.one", strings.Repeat("job ", 100))
	}
	if out, code := n.verified(); code != exitOK || out.Node != "running" || len(out.Damage) > 0 || out.Messages < 300 {
		t.Fatalf("got exit code %d and %+v of a whole store", code, out)
	}
	n.stop()
	blocks, err := filepath.Glob(filepath.Join(n.data, "jetstream", "*", "streams", "ORDERS", "msgs", "1.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("got %v, %v, want the block", blocks, err)
	}
	info, err := os.Stat(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	buf, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	buf[int(le.LittleEndian.Uint32(buf))+100] ^= 4 // in the body of the second message
	if err := errors.Join(os.WriteFile(blocks[0], buf, 0o640), os.Chtimes(blocks[0], info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	stopped, code := n.verified()
	if code != exitDamaged || stopped.Node != "stopped" || len(stopped.Damage) != 1 || len(stopped.Damage[0].Ranges) != 1 {
		t.Fatalf("got exit code %d and %+v, want one damage", code, stopped)
	}
	n.start()
	running, code := n.verified("--mend", "--yes")
	if code != exitDamaged || running.Mended == nil || len(running.Mended.Damage) != 1 {
		t.Fatalf("got exit code %d and %+v, want it mended", code, running)
	}
	if diff := cmp.Diff(stopped.Damage[0].Ranges, running.Damage[0].Ranges); diff != "" {
		t.Errorf("what is lost differs (-stopped +running):\n%s", diff)
	}
	lost := running.Damage[0].Ranges[0]
	if lost != (admin.SeqRange{From: lost.From, To: lost.From}) {
		t.Errorf("got %+v lost, want one message", lost)
	}
	if got := messagesIn(t, n.jetStream(), "ORDERS"); got != 149 {
		t.Errorf("got %d messages, want all but one", got)
	}
	if out, code := n.verified(); code != exitOK || len(out.Damage) > 0 {
		t.Errorf("got exit code %d and %+v after mending, want a whole store", code, out)
	}
	n.stop()
}
