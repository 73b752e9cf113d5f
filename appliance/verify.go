// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/metrics"
)

const (
	// verifyAfter is how long a node runs before it begins a pass by itself: a start has
	// enough to read.
	verifyAfter = 15 * time.Minute
	// verifyLook is how often it looks whether one is due.
	verifyLook = time.Minute
	// progressAtMost is how often somebody who asked is told how far a pass is.
	progressAtMost = 200 * time.Millisecond
)

// verifying is what is known of passes over what is stored.
type verifying struct {
	mu      sync.Mutex
	running *admin.VerifyProgress // nil while none is
	// yield ends a pass that the node began by itself; nil for one that was asked for.
	yield context.CancelFunc
	free  chan struct{} // closed when the running pass has ended
	last  *admin.VerifiedLast
	read  uint64 // bytes since the start
}

// errYield ends a pass of the node's own when somebody asks for one.
var errYield = errors.New("somebody asked for a pass of his own")

// loadVerified reads when everything was read last.
func (a *Appliance) loadVerified() {
	text, err := os.ReadFile(datadir.VerifyReport(a.dir.Path()))
	var last admin.VerifiedLast
	if err == nil && json.Unmarshal(text, &last) == nil {
		a.verify.last = &last
	}
}

// Verify reads what is stored, or some streams of it.
func (a *Appliance) Verify(ctx context.Context, r admin.VerifyRequest, progress func(admin.VerifyProgress)) (admin.Verified, error) {
	if err := a.running(); err != nil {
		return admin.Verified{}, err
	}
	stored := a.engine.Stored()
	for _, s := range r.Streams {
		if !slices.Contains(stored, s) {
			return admin.Verified{}, noSuchStream(s)
		}
	}
	return a.pass(ctx, r, nil, progress)
}

func noSuchStream(name string) error {
	return diag.Fail(diag.CodeUnknownObject, fmt.Errorf("stream %q is not stored in files here", name), "name it as ACCOUNT/STREAM; `holdfast status` lists them")
}

// pass reads what is stored. yield ends it for somebody who asks.
func (a *Appliance) pass(ctx context.Context, r admin.VerifyRequest, yield context.CancelFunc, progress func(admin.VerifyProgress)) (admin.Verified, error) {
	end, err := a.beginPass(ctx, yield)
	if err != nil {
		return admin.Verified{}, err
	}
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	defer close(stopped)
	go func() {
		select {
		case <-a.stopping:
			cancel(errStopping)
		case <-stopped:
		}
	}()
	a.log.Info("reading what is stored", keyMode, passMode(yield), "rate", rateText(r.Rate))
	told := time.Time{}
	out, err := a.engine.Verify(ctx, engine.VerifyOptions{
		Streams: r.Streams, Rate: r.Rate,
		Progress: func(p engine.VerifyProgress) {
			now := admin.VerifyProgress(p)
			a.verify.mu.Lock()
			a.verify.running = &now
			a.verify.mu.Unlock()
			if progress != nil && time.Since(told) >= progressAtMost {
				told = time.Now()
				progress(now)
			}
		},
		Found: a.tellFound,
	})
	a.verify.mu.Lock()
	a.verify.read += uint64(out.Bytes)
	a.verify.mu.Unlock()
	if err != nil {
		return verified(out), err
	}
	a.passed(out, len(r.Streams) == 0)
	return verified(out), nil
}

// beginPass makes sure that there is one pass at a time.
func (a *Appliance) beginPass(ctx context.Context, yield context.CancelFunc) (end func(), err error) {
	v := &a.verify
	for {
		v.mu.Lock()
		if v.running == nil {
			free := make(chan struct{})
			v.running, v.yield, v.free = &admin.VerifyProgress{}, yield, free
			v.mu.Unlock()
			return func() {
				v.mu.Lock()
				defer v.mu.Unlock()
				v.running, v.yield = nil, nil
				close(free)
			}, nil
		}
		own, free := v.yield, v.free
		v.mu.Unlock()
		if own == nil {
			return nil, diag.Fail(diag.CodeNotReady, errors.New("what is stored is being read already: somebody asked for it"), "`holdfast status` shows how far that is")
		}
		own() // the node's own begins again later
		select {
		case <-free:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tellFound logs damage as soon as it is found.
func (a *Appliance) tellFound(d engine.Damage) {
	a.log.Error("damage found on the disk", keyStream, d.Account+"/"+d.Stream, keyWhat, d.String(), "original", d.Original,
		keyFix, "look at the disk; then `holdfast verify --mend`, or restart Holdfast: until then the server may cut the block off where it is damaged")
}

// passed logs what a pass found, and keeps it when it was one over all streams.
func (a *Appliance) passed(out engine.Verified, all bool) {
	log := a.log.Info
	if len(out.Damaged)+len(out.Problems) > 0 {
		log = a.log.Error
	}
	log("what is stored was read", keyCount, out.Streams, "blocks", out.Blocks, keyBytes, humanize.IBytes(uint64(out.Bytes)), "damaged", len(out.Damaged),
		"hidden_blocks", out.Hidden, keyDur, out.Ended.Sub(out.Begun).Round(time.Millisecond).String())
	for _, p := range out.Problems {
		a.log.Error("not all of what is stored could be read, or kept", keyWhat, p)
	}
	if !all {
		return
	}
	last := admin.VerifiedLast{
		Begun: out.Begun.UTC(), Ended: out.Ended.UTC(), Streams: out.Streams, Blocks: out.Blocks, Messages: out.Messages, Bytes: out.Bytes,
		Hidden: out.Hidden, Damaged: len(out.Damaged), Problems: len(out.Problems),
	}
	text, err := json.MarshalIndent(last, "", "  ")
	if err == nil {
		err = datadir.WriteFile(datadir.VerifyReport(a.dir.Path()), append(text, '\n'), 0o640)
	}
	if err != nil {
		a.log.Warn("when everything was read is not remembered across a restart", keyErr, err)
	}
	a.verify.mu.Lock()
	defer a.verify.mu.Unlock()
	a.verify.last = &last
}

// Mend mends streams as a restart does, while the process goes on.
func (a *Appliance) Mend(_ context.Context, r admin.MendRequest) (admin.MendAnswer, error) {
	if err := a.running(); err != nil {
		return admin.MendAnswer{}, err
	}
	stored := a.engine.Stored()
	for _, s := range r.Streams {
		if !slices.Contains(stored, s) {
			return admin.MendAnswer{}, noSuchStream(s)
		}
	}
	a.applying.Lock()
	defer a.applying.Unlock()
	a.log.Warn("streams are closed for a moment, to mend what is damaged", keyStream, r.Streams)
	begun := time.Now()
	found, err := a.engine.Mend(r.Streams)
	took := time.Since(begun)
	if err != nil {
		a.log.Error("not everything mended", keyErr, err, keyFix, diag.Hint(err))
		return admin.MendAnswer{}, err
	}
	a.log.Info("streams mended and read again", keyCount, len(found), keyDur, took.Round(time.Millisecond).String())
	return admin.MendAnswer{Damage: damages(found), ClosedSeconds: took.Seconds()}, nil
}

// tendVerify begins a pass when one is due, until ctx is done.
func (a *Appliance) tendVerify(ctx context.Context) {
	tick := time.NewTicker(a.verifyLook())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		v := a.config().Storage.Verify
		if !a.verifyDue(time.Now(), time.Duration(v.Every)) {
			continue
		}
		own, cancel := context.WithCancelCause(ctx)
		_, err := a.pass(own, admin.VerifyRequest{Rate: max(int64(v.Rate), 0)}, func() { cancel(errYield) }, nil)
		cancel(nil)
		if err != nil && ctx.Err() == nil && !errors.Is(err, errStopping) {
			a.log.Info("reading what is stored ended early, and begins again later", keyErr, err)
		}
	}
}

// verifyDue reports whether a pass is to begin: some time after the start at the
// earliest, and so long after the end of the last.
func (a *Appliance) verifyDue(now time.Time, every time.Duration) bool {
	if every <= 0 || now.Sub(a.started) < min(verifyAfter, every) {
		return false
	}
	a.verify.mu.Lock()
	defer a.verify.mu.Unlock()
	last := a.verify.last
	// A clock that was wrong must not put it off for years.
	return a.verify.running == nil && (last == nil || now.Sub(last.Ended) >= every || last.Ended.After(now.Add(every)))
}

func (a *Appliance) verifyLook() time.Duration {
	if a.opts.VerifyLook > 0 {
		return a.opts.VerifyLook
	}
	return verifyLook
}

// verifyStatus is what status tells of passes.
func (a *Appliance) verifyStatus() admin.VerifyStatus {
	a.verify.mu.Lock()
	defer a.verify.mu.Unlock()
	return admin.VerifyStatus{Every: time.Duration(a.config().Storage.Verify.Every).Seconds(), Last: a.verify.last, Running: a.verify.running}
}

// verifyMetrics is what metrics tell of them.
func (a *Appliance) verifyMetrics() metrics.Verify {
	a.verify.mu.Lock()
	defer a.verify.mu.Unlock()
	out := metrics.Verify{Bytes: a.verify.read}
	if p := a.verify.running; p != nil {
		out.Running, out.Bytes = true, out.Bytes+uint64(p.BytesDone)
	}
	if l := a.verify.last; l != nil {
		out.Last, out.Damaged, out.Hidden = l.Ended, l.Damaged, l.Hidden
	}
	return out
}

func passMode(yield context.CancelFunc) string {
	if yield != nil {
		return "by itself"
	}
	return "asked for"
}

func rateText(rate int64) string {
	if rate <= 0 {
		return "unbounded"
	}
	return humanize.IBytes(uint64(rate)) + "/s"
}

func verified(v engine.Verified) admin.Verified {
	return admin.Verified{
		Begun: v.Begun.UTC(), Ended: v.Ended.UTC(), Streams: v.Streams, Blocks: v.Blocks, Messages: v.Messages, Bytes: v.Bytes,
		Hidden: v.Hidden, Damage: damages(v.Damaged), Problems: v.Problems,
	}
}

func damages(list []engine.Damage) []admin.Damage {
	out := make([]admin.Damage, len(list))
	for i, d := range list {
		out[i] = admin.Damage{Stream: d.Account + "/" + d.Stream, Found: d.Found, Lost: d.String(), Ranges: []admin.SeqRange{}, Open: d.Open, Original: d.Original}
		for _, r := range d.Lost {
			out[i].Ranges = append(out[i].Ranges, admin.SeqRange(r))
		}
	}
	return out
}
