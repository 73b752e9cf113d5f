// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
)

// Phase is where an engine is in its life.
type Phase string

// The phases, in the order in which an engine goes through them; a start that
// did not work ends in PhaseFailed.
const (
	PhaseNew        Phase = "new"
	PhaseRecovering Phase = "recovering"
	PhaseRunning    Phase = "running"
	PhaseStopping   Phase = "stopping"
	PhaseStopped    Phase = "stopped"
	PhaseFailed     Phase = "failed"
)

// Progress says how far the recovery of the streams is.
type Progress struct {
	Phase Phase
	// Doing is what the start does to streams before it recovers them, such as
	// "encrypting"; "" while it does nothing of the kind. The figures are its own then.
	Doing string
	// Streams and bytes found on disk before the start, and how much of that is
	// back. The bytes of a stream count when all of it is, and on Linux as they are read.
	StreamsTotal, StreamsDone int
	BytesTotal, BytesDone     int64
	// BytesToCheck are in the blocks that are looked at for damage before the server
	// reads any, and BytesChecked what has been looked at.
	BytesToCheck, BytesChecked int64
	// Current is a stream that is being recovered, as account/stream.
	Current string
	// Unrecovered are the streams that were on disk and did not come back, known
	// once the engine runs. Their files are still there.
	Unrecovered []string
	// Restored are streams and consumers whose metadata had lost its checksum to a
	// crash, which has been written again; as account/stream/consumer.
	Restored []string
	// StartedOver are consumers whose position a crash had destroyed.
	StartedOver []string
	// Damaged are blocks that this start found damaged, and mended.
	Damaged []Damage
}

// Checking reports whether blocks are being looked at for damage.
func (p Progress) Checking() bool { return p.BytesChecked < p.BytesToCheck }

// Counted reports whether what there is to be done is known: a start counts it first.
func (p Progress) Counted() bool { return p.Phase != PhaseNew || p.Doing != "" }

// Progress returns how far the recovery is. It may be called at any time.
func (e *Engine) Progress() Progress { return e.recovery.progress() }

// The server tells of its recovery in log calls only. Their formats are pinned
// by TestProgressCountsTheStreamsOfARealServer.
const (
	formatRestoreBegins = "  Starting restore for stream '%s > %s'"
	formatRestoreEnds   = "  Restored %s messages for stream '%s > %s' in %v"
)

type streamKey struct{ account, stream string }

// recovery follows a recovery by the server's log calls.
type recovery struct {
	names Names
	// restoring is closed when the restore of the first stream begins.
	restoring chan struct{}
	first     sync.Once
	// read is how many bytes this process has read; 0 where that is not known.
	read  func() int64
	check checking

	mu         sync.Mutex
	phase      Phase
	sizes      map[streamKey]int64 // what is on disk
	done       map[streamKey]bool
	open       []streamKey // begun and not ended, oldest first
	readBefore int64       // before the server read anything; -1: it does not yet

	mended mended

	preparing Progress // while the store is being prepared
}

func newRecovery(names Names) *recovery {
	return &recovery{
		names: names, restoring: make(chan struct{}), phase: PhaseNew, done: make(map[streamKey]bool), read: bytesRead, readBefore: -1,
	}
}

// prepare tells of what is done to streams, or their keys, before the recovery; "" when
// that is over.
func (r *recovery) prepare(doing, current string, done, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.preparing = Progress{Phase: r.phase, Doing: doing, Current: current, StreamsDone: done, StreamsTotal: total}
}

// begin counts what is on disk below the server's store.
func (r *recovery) begin(storeDir string) {
	sizes := streamSizes(filepath.Join(storeDir, server.JetStreamStoreDir))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sizes, r.preparing = sizes, Progress{}
	r.phase = PhaseRecovering
}

// checked takes what was found by looking at the blocks; the server reads them next.
func (r *recovery) checked(m mended) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mended, r.readBefore = m, r.read()
}

// enter moves to a phase; a failed engine stays failed while it is stopped.
func (r *recovery) enter(p Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != PhaseFailed {
		r.phase = p
	}
}

func (r *recovery) at() Phase {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase
}

// notice is called with every notice of the server. Recovery is over when the
// engine runs; the same formats mean a restored backup then.
func (r *recovery) notice(format string, args []any) {
	switch {
	case format == formatRestoreBegins && len(args) == 2:
		r.streamBegins(keyOf(args[0], args[1]))
	case format == formatRestoreEnds && len(args) == 4:
		r.streamEnds(keyOf(args[1], args[2]))
	}
}

func keyOf(account, stream any) streamKey {
	a, _ := account.(string)
	s, _ := stream.(string)
	return streamKey{a, s}
}

func (r *recovery) streamBegins(k streamKey) {
	r.first.Do(func() { close(r.restoring) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == PhaseRecovering {
		r.open = append(r.open, k)
	}
}

func (r *recovery) streamEnds(k streamKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != PhaseRecovering {
		return
	}
	r.done[k] = true
	r.open = slices.DeleteFunc(r.open, func(o streamKey) bool { return o == k })
}

func (r *recovery) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.preparing.Doing != "" {
		return r.preparing
	}
	p := Progress{Phase: r.phase, StreamsTotal: len(r.sizes), Restored: r.mended.restored, StartedOver: r.mended.startedOver, Damaged: r.mended.damaged}
	p.BytesChecked, p.BytesToCheck = r.check.done.Load(), r.check.total.Load()
	for k, size := range r.sizes {
		p.BytesTotal += size
		switch {
		case r.done[k]:
			p.StreamsDone++
			p.BytesDone += size
		case r.phase == PhaseRunning:
			p.Unrecovered = append(p.Unrecovered, r.label(k))
		}
	}
	if r.phase == PhaseRecovering && r.readBefore >= 0 {
		// A large stream would show nothing for minutes, and then all at once.
		p.BytesDone = max(p.BytesDone, min(r.read()-r.readBefore, p.BytesTotal))
	}
	slices.Sort(p.Unrecovered)
	if r.phase == PhaseRecovering && len(r.open) > 0 {
		p.Current = r.label(r.open[0])
	}
	return p
}

func (r *recovery) label(k streamKey) string { return r.names.name(k.account) + "/" + k.stream }

// streamSizes finds the size of each stream's messages.
func streamSizes(root string) map[streamKey]int64 {
	sizes := make(map[streamKey]int64)
	for _, key := range storedStreams(root) {
		sizes[key] = dirSize(filepath.Join(root, key.account, "streams", key.stream, "msgs"))
	}
	return sizes
}

func dirSize(dir string) int64 {
	var sum int64
	// The error of a file that vanished or can't be read is of no interest to a
	// progress display.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // see above
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
