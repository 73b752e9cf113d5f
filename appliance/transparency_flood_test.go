// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	floodFor = 2 * time.Second
	// floodMemory is what the node may have in use under a flood, in the process of
	// the tests with all else in it; the flood itself is more by far.
	floodMemory = 400 << 20
)

// TestTransparencyOfAFlood has one publisher that waits for nothing.
func TestTransparencyOfAFlood(t *testing.T) {
	_, on := twoSides(t, `    users: {admin: {inbox: shared}}
    streams:
      FLOOD: {group_commit: GROUP, subjects: ["flood.>"], max_bytes: 4GiB}
      OTHER: {group_commit: GROUP, subjects: ["other.>"], max_bytes: 64MiB}
`)
	flooder, wire := on.connect(t, "admin")
	inbox := nats.NewInbox()
	var answered, kept, refused atomic.Uint64
	if _, err := flooder.Subscribe(inbox, func(m *nats.Msg) {
		answered.Add(1)
		switch a, err := readAnswer(m); {
		case err == nil && a.kind() == "ok":
			kept.Add(1)
		case err == nil && (a.kind() == "429" || a.kind() == "10167"):
			refused.Add(1)
		default:
			t.Errorf("got %v %s, want a message kept, or too many", m.Header, m.Data)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := flooder.Flush(); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	stop := make(chan struct{})
	var all sync.WaitGroup
	neighbours := []string{"other.neighbour"}
	if on.grouped {
		// Without group commit they wait for an fsync of each message before theirs.
		neighbours = append(neighbours, "flood.neighbour")
	}
	slowest, others := on.neighbours(t, neighbours, &all, stop)
	most := mostMemory(&all, stop)
	const atOnce = 16
	message := bytes.Repeat(publication("flood.x", inbox, "", strings.Repeat("x", 4<<10)), atOnce)
	sent := uint64(0)
	for end := time.Now().Add(floodFor); time.Now().Before(end); sent += atOnce {
		if err := wire.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := wire.Write(message); err != nil {
			t.Fatalf("got %v after %d messages, want the publisher only slowed down", err, sent)
		}
	}
	close(stop)
	all.Wait()
	t.Logf("%d messages sent, %d answered at the end, %d MiB in use at most, slowest answer to others after %s", sent, answered.Load(), most.Load()>>20, time.Duration(slowest.Load()))
	if got := most.Load(); got > floodMemory {
		t.Errorf("got %d MiB in use, want %d at most", got>>20, floodMemory>>20)
	}
	for _, subject := range neighbours {
		if n, _ := others.Load(subject); n == nil {
			t.Errorf("%s: got no answer during the flood, want some", subject)
		}
	}
	if !on.grouped {
		return
	}
	eventually(t, func() error {
		if got := answered.Load(); got < sent {
			return fmt.Errorf("got %d answers to %d messages, want all", got, sent)
		}
		return nil
	})
	if kept.Load() == 0 {
		t.Errorf("got %d messages kept and %d refused, want some kept", kept.Load(), refused.Load())
	}
	var info struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	if err := call(flooder, "STREAM.INFO.FLOOD", map[string]string{"subjects_filter": "flood.x"}, &info); err != nil || info.State.Subjects["flood.x"] != kept.Load() {
		t.Errorf("got %d messages kept, %v, want the %d of the answers", info.State.Subjects["flood.x"], err, kept.Load())
	}
}

// neighbours publish one message after the other. They return their slowest answer
// and, by subject, that there were some.
func (s *side) neighbours(t *testing.T, subjects []string, all *sync.WaitGroup, stop <-chan struct{}) (slowest *atomic.Int64, answers *sync.Map) {
	slowest, answers = &atomic.Int64{}, &sync.Map{}
	for _, subject := range subjects {
		nc, _ := s.connect(t, "admin")
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				m, err := nc.Request(subject, []byte("x"), patience)
				if err == nil && len(m.Data) == 0 {
					err = errors.New("empty")
				}
				if err != nil {
					t.Errorf("%s: got %v, want an answer", subject, err)
					return
				}
				answers.Store(subject, true)
				for took := int64(time.Since(began)); ; {
					old := slowest.Load()
					if took <= old || slowest.CompareAndSwap(old, took) {
						break
					}
				}
			}
		})
	}
	return slowest, answers
}

// mostMemory follows the heap.
func mostMemory(all *sync.WaitGroup, stop <-chan struct{}) *atomic.Uint64 {
	most := &atomic.Uint64{}
	all.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	return most
}
