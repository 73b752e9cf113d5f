// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// VerifyOptions say what of a store is read, and how fast.
type VerifyOptions struct {
	// Streams are names as account/stream; none means all.
	Streams []string
	// Rate bounds what is read, in bytes per second; 0 for no bound.
	Rate int64
	// Progress, if not nil, is called before each block.
	Progress func(VerifyProgress)
	// Found, if not nil, is called for each damage at once.
	Found func(Damage)
}

// VerifyProgress is how far a pass is.
type VerifyProgress struct {
	StreamsDone, StreamsTotal int
	BytesDone, BytesTotal     int64
	// Current is the stream that is read, as account/stream.
	Current string
	// Damaged is how much damage was found so far.
	Damaged int
}

// Verified is what a pass found.
type Verified struct {
	Begun, Ended              time.Time
	Streams, Blocks, Messages int
	Bytes                     int64
	// Hidden are blocks whose messages can't be seen: they are encrypted, and no key is at
	// hand.
	Hidden  int
	Damaged []Damage
	// Problems say what could not be read, or damaged blocks that could not be copied
	// into the quarantine.
	Problems []string
}

// fate is what a live server says of a stream.
type fate struct {
	messages, first, last uint64
}

const (
	// settleFor is how long a pass waits before it looks again at what may be damaged in
	// a live store: what is being written, or removed, is another thing then.
	settleFor = 300 * time.Millisecond
	// looks is how often it has to look damaged.
	looks = 4
	// askAgain is how old what the server said may be.
	askAgain = 5 * time.Second
	// indexSlack is how much older than its index a block of a live store must be.
	indexSlack = time.Minute
)

// scrub is a pass over a store.
type scrub struct {
	storeDir string
	names    Names
	ring     *keyring // of what is encrypted
	o        VerifyOptions
	// live asks the server about the streams of an account; nil when none runs.
	live   func(account string) (map[string]fate, error)
	settle time.Duration
	// still is true for a stream that no server writes to.
	still bool
	// asked is what the server said of an account, and when: a thousand streams need
	// not be asked for one by one.
	asked   map[string]fate
	account string
	when    time.Time

	progress VerifyProgress
	out      Verified
	pace     pace
}

// Verify reads every block of the streams while the server goes on, and copies what is
// damaged into the quarantine before the server reads it and cuts it off. What is being
// written or removed meanwhile is no damage.
func (e *Engine) Verify(ctx context.Context, o VerifyOptions) (Verified, error) {
	s := scrub{storeDir: e.settings.StoreDir, names: e.log.names, ring: e.ring(), o: o, live: e.fates, settle: settleFor}
	return s.run(ctx)
}

// VerifyStore reads the store of a node that does not run, and changes nothing.
func VerifyStore(ctx context.Context, storeDir string, names Names, o VerifyOptions) (Verified, error) {
	s := scrub{storeDir: storeDir, names: names, o: o}
	return s.run(ctx)
}

// fates asks the server what it has of the streams of an account.
func (e *Engine) fates(account string) (map[string]fate, error) {
	if !e.server.JetStreamEnabled() {
		return nil, errors.New("the streams are closed at the moment")
	}
	out := map[string]fate{}
	a, err := e.server.JszAccount(&server.JSzOptions{Account: account, Streams: true})
	if err != nil {
		return out, nil //nolint:nilerr // nobody has declared the account: the server leaves it alone
	}
	for _, d := range a.Streams {
		out[d.Name] = fate{d.State.Msgs, d.State.FirstSeq, d.State.LastSeq}
	}
	return out, nil
}

// fate is what the server has of a stream by now, or some seconds ago when that will do;
// false when it has none of that name.
func (s *scrub) fate(key streamKey, now bool) (fate, bool, error) {
	f, ok := s.asked[key.stream]
	if now || !ok || s.account != key.account || time.Since(s.when) > askAgain {
		var err error
		s.when, s.account = time.Now(), key.account
		if s.asked, err = s.live(key.account); err != nil {
			return fate{}, false, err
		}
		f, ok = s.asked[key.stream]
	}
	return f, ok, nil
}

func (s *scrub) run(ctx context.Context) (Verified, error) {
	s.out.Begun = time.Now()
	s.pace = pace{rate: s.o.Rate}
	var keys []streamKey
	for _, key := range storedStreams(filepath.Join(s.storeDir, server.JetStreamStoreDir)) {
		if len(s.o.Streams) == 0 || slices.Contains(s.o.Streams, s.label(key)) {
			keys = append(keys, key)
			s.progress.BytesTotal += blocksSize(filepath.Join(s.storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream))
		}
	}
	s.progress.StreamsTotal = len(keys)
	for _, key := range keys {
		s.progress.Current = s.label(key)
		err := s.stream(ctx, key)
		if ctx.Err() != nil {
			return s.out, fmt.Errorf("verify stream %s: %w", s.label(key), context.Cause(ctx))
		}
		if err != nil {
			s.out.Problems = append(s.out.Problems, fmt.Sprintf("stream %s: %v", s.label(key), err))
		}
		s.progress.StreamsDone++
		s.out.Streams++
	}
	s.lost()
	s.tell()
	s.out.Ended = time.Now()
	return s.out, nil
}

// lost says which streams a start would miss. While a server runs it may have deleted
// them because somebody asked for it.
func (s *scrub) lost() {
	if s.live != nil {
		return
	}
	for _, key := range knownStreams(s.storeDir) {
		if len(s.o.Streams) > 0 && !slices.Contains(s.o.Streams, s.label(key)) {
			continue
		}
		dir := filepath.Join(s.storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)
		if there, err := exists(dir); err == nil && !there {
			s.out.Problems = append(s.out.Problems, fmt.Sprintf("stream %s: its directory is gone; the next start says what it had", s.label(key)))
		}
	}
}

// unconfigured says of a stream whose configuration is not there, or not whole.
func (s *scrub) unconfigured(in *inspection) {
	if in.configured(&struct{}{}) {
		return
	}
	s.out.Problems = append(s.out.Problems, fmt.Sprintf("stream %s: its configuration can't be read; a start brings it back", s.label(in.key)))
}

func (s *scrub) label(key streamKey) string { return s.names.name(key.account) + "/" + key.stream }

func (s *scrub) tell() {
	if s.o.Progress != nil {
		s.progress.Damaged = len(s.out.Damaged)
		s.o.Progress(s.progress)
	}
}

func (s *scrub) stream(ctx context.Context, key streamKey) error {
	var before fate
	if s.still = s.live == nil; !s.still {
		// Before the blocks are listed: what the server has by now is in one of them.
		f, alive, err := s.fate(key, false)
		if err != nil {
			return err
		}
		before, s.still = f, !alive
	}
	in, err := inspect(s.storeDir, key, s.names, s.ring, time.Now())
	if err != nil {
		return err
	}
	if s.live != nil {
		in.clean, in.slack = false, indexSlack
	}
	if in.sealed {
		s.out.Hidden += len(in.blocks)
		s.progress.BytesDone += blocksSize(in.dir)
		return nil
	}
	// One that the server does not have any more is being deleted.
	if len(in.blocks) > 0 && (s.live == nil || !s.still) {
		s.unconfigured(in)
	}
	m := &mending{inspection: in}
	if m.gone = in.missing(); len(m.gone) > 0 && !s.still {
		m.gone = s.stillMissing(ctx, key, m.gone)
	}
	for i, index := range in.blocks {
		for _, r := range m.lostBefore(i, index) {
			s.damaged(in, &r)
		}
		if err := s.block(ctx, in, i); err != nil {
			return err
		}
	}
	for _, r := range m.lostBefore(len(in.blocks), -1) {
		s.damaged(in, &r)
	}
	return s.end(ctx, in, before)
}

// stillMissing leaves out what the server has removed meanwhile.
func (s *scrub) stillMissing(ctx context.Context, key streamKey, gone []missing) []missing {
	if !wait(ctx, s.settle) {
		return nil
	}
	now, alive, err := s.fate(key, true)
	return slices.DeleteFunc(gone, func(g missing) bool {
		return err != nil || !alive || now.messages == 0 || len(g.lost) == 0 || g.lost[0].From < now.first
	})
}

// block reads one block, and again where it looks damaged and the server may be at it.
func (s *scrub) block(ctx context.Context, in *inspection, i int) error {
	s.tell()
	var last []byte
	for look := 1; ; look++ {
		if s.still || i < len(in.blocks)-1 {
			forgetCached(in.path(in.blocks[i])) // the disk is what is to be read
		}
		r, err := in.read(in.blocks[i])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile; what is not there at all is found otherwise
		case err != nil && look < looks && !s.still:
			if !wait(ctx, s.settle) {
				return context.Cause(ctx)
			}
			continue
		case err != nil:
			rep := in.unreadable(i, err)
			in.pass(scanned{}, rep)
			s.damaged(in, rep)
			return nil
		}
		rep, sc := in.judge(i, r)
		if rep != nil && !s.still && look < looks && (look == 1 || !slices.Equal(last, r.raw)) {
			last = r.raw
			if !wait(ctx, s.settle) {
				return context.Cause(ctx)
			}
			continue
		}
		in.pass(sc, rep)
		if rep != nil {
			s.damaged(in, rep)
		}
		return s.read(ctx, in, i, r, sc)
	}
}

// read counts a block, and rests after it.
func (s *scrub) read(ctx context.Context, in *inspection, i int, r *blockReader, sc scanned) error {
	if i < len(in.blocks)-1 {
		forgetCached(in.path(in.blocks[i])) // it would drive out what consumers read
	}
	s.out.Blocks++
	s.out.Messages += sc.messages
	s.out.Bytes += int64(len(r.raw))
	s.progress.BytesDone += int64(len(r.raw))
	return s.pace.rest(ctx, len(r.raw))
}

// damaged notes what is damaged, and keeps it when the server may come to it.
func (s *scrub) damaged(in *inspection, r *repair) {
	d := &r.damage
	d.Account, d.Stream, d.Block, d.Found = in.account, in.key.stream, r.index, in.now.UTC()
	if s.live != nil {
		d.Open = r.found != nil || r.unreadable
		if err := in.setAside(r); err != nil {
			s.out.Problems = append(s.out.Problems, fmt.Sprintf("block %d of %s: %v", r.index, s.label(in.key), err))
		}
	}
	s.out.Damaged = append(s.out.Damaged, *d)
	if s.o.Found != nil {
		s.o.Found(*d)
	}
}
