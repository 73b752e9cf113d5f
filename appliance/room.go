// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/disk"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/howto"
	"github.com/holdfast-mq/holdfast/appliance/metrics"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

const (
	// stuckEvery is how often streams that could not be written are looked for while
	// publishing goes on.
	stuckEvery = 3 * time.Second
	// reopenFirst and reopenLast are the pauses between tries to read streams again
	// that could not be written.
	reopenFirst = time.Second
	reopenLast  = 5 * time.Minute
)

// room is what the node does about a volume that gets full, or fails. Its fields are
// those of the goroutine that tends it, but for what a.mu guards.
type room struct {
	guard   disk.Guard
	looked  time.Time // when streams that could not be written were looked for
	reopen  time.Time // when they may be read again, and how long after that
	pause   time.Duration
	braking bool      // what the engine was told last
	letGo   time.Time // when streams were read again because publishers could not be let go on
	broken  bool      // what the log was told last of the disk
}

// roomStatus is what others are told of the room; a.mu guards it.
type roomStatus struct {
	minFree int64  // bytes
	stopped string // why nothing is published, "" while publishing goes on
	since   time.Time
	broken  error
	fullIn  time.Duration
	reopens int
}

// tendRoom looks at the volume until ctx is done.
func (a *Appliance) tendRoom(ctx context.Context) {
	for {
		next := a.lookAtVolume()
		select {
		case <-ctx.Done():
			// It works in the data directory, which is given back soon; one that hangs
			// can't be ended.
			a.probe.await(probeEvery)
			return
		case <-time.After(next):
		}
	}
}

// lookAtVolume stops publishers before the volume is too full, lets them go on when
// there is room, and reads streams again that could not be written meanwhile. It
// returns when to look again.
func (a *Appliance) lookAtVolume() time.Duration {
	now := time.Now()
	broken := a.probe.try(now, a.dir.Probe)
	verdict := disk.Verdict{Next: time.Second}
	var keep int64
	vol, err := a.dir.Volume()
	if err != nil {
		broken = cmp.Or(broken, err)
	} else {
		r := disk.Room{Total: vol.Total, Free: vol.Free, Inodes: vol.Inodes, InodesTotal: vol.InodesTotal}
		a.room.guard.MinFree = uint64(a.config().Storage.KeepFree(int64(vol.Total)))
		keep = int64(a.room.guard.MinFree)
		r.Free -= min(a.tendBallast(r), r.Free)
		verdict = a.room.guard.See(r, now)
	}
	if broken != nil {
		verdict.Braked, verdict.Why = true, broken.Error()
	}
	if !verdict.Braked {
		// Before publishers are let go on: a stream that takes nothing does not answer.
		a.reopen(now)
	}
	if err := a.brake(verdict.Braked, verdict.Why, broken); err != nil {
		verdict.Braked, verdict.Why = true, fmt.Sprintf("there is room again, and publishers could not be let go on: %v", err)
	}
	a.mu.Lock()
	before := a.roomStatus
	a.roomStatus.minFree, a.roomStatus.broken, a.roomStatus.fullIn = keep, broken, verdict.FullIn
	a.roomStatus.stop(verdict, now)
	after := a.roomStatus
	a.mu.Unlock()
	if (before.stopped == "") != (after.stopped == "") || (before.broken == nil) != (after.broken == nil) {
		a.tellStatusLine()
	}
	return verdict.Next
}

// stop notes why publishing is stopped, and since when.
func (r *roomStatus) stop(v disk.Verdict, now time.Time) {
	switch {
	case !v.Braked:
		r.stopped, r.since = "", time.Time{}
	case r.stopped == "":
		r.since = now
		fallthrough
	default:
		r.stopped = v.Why
	}
}

// tendBallast returns what the ballast lacks, in bytes.
func (a *Appliance) tendBallast(r disk.Room) uint64 {
	b := disk.Ballast{Path: a.dir.BallastFile(), Size: disk.BallastFor(a.room.guard.MinFree)}
	owed, gone, err := b.Tend(r, a.room.guard.MinFree)
	if a.news("ballast", err) {
		a.log.Warn("no room kept for an emergency", keyErr, err)
	}
	if gone {
		a.log.Warn("the volume is full: what was kept for this is given up, for consumers to go on", keyBytes, b.Size)
	}
	return owed
}

// brake tells the engine whether publishers are stopped. While they are it tells it
// again and again: a change of an account lets them go.
func (a *Appliance) brake(on bool, why string, broken error) error {
	if !on && !a.room.braking {
		return nil
	}
	err := a.engine.Brake(on, a.applicationTokens())
	if a.news("brake", err) {
		a.log.Error("publishers not stopped, or not let go on", keyErr, err)
	}
	if err != nil && !on && time.Since(a.room.letGo) > reopenLast {
		// The limits are those of the accounts again when the streams have been read.
		a.room.letGo = time.Now()
		err = a.engine.Reopen()
	}
	if err != nil && !on {
		return err // tried again with the next look
	}
	a.tellBrake(on, why, broken)
	a.room.braking, a.room.broken = on, broken != nil
	return nil
}

// tellBrake logs what has changed: once when publishing stops and once when it goes on,
// however long it takes and whatever the disk answers meanwhile.
func (a *Appliance) tellBrake(on bool, why string, broken error) {
	fix := howto.Here().SystemLog() + " says what is wrong with the disk; publishing goes on by itself when it can be written"
	switch stopped := on && !a.room.braking; {
	case !on:
		a.log.Info("publishing goes on")
	case stopped && broken != nil:
		a.log.Error("publishing stopped: the data directory can't be written", keyErr, broken, keyFix, fix)
	case broken != nil && !a.room.broken:
		a.log.Error("the data directory can't be written", keyErr, broken, keyFix, fix)
	case broken == nil && a.room.broken:
		a.log.Info("the data directory can be written again")
	case stopped:
		a.log.Error("publishing stopped: the volume is nearly full", keyWhat, why,
			keyFix, "free space on the volume, purge a stream, or make the volume larger; publishing goes on by itself")
	}
}

// applicationTokens are the JWTs of all accounts but Holdfast's own.
func (a *Appliance) applicationTokens() []string {
	var out []string
	for public, token := range a.identity.Trust().Preload {
		if name, _ := a.identity.AccountName(public); name != identity.SystemName && name != identity.InternalName {
			out = append(out, token)
		}
	}
	return out
}

// reopen reads streams again that could not be written once, for they take nothing
// any more by themselves. What goes wrong again is tried after longer and longer.
func (a *Appliance) reopen(now time.Time) {
	if !a.room.braking && now.Sub(a.room.looked) < stuckEvery {
		return
	}
	a.room.looked = now
	stuck := a.engine.Stuck()
	if len(stuck) == 0 {
		if now.After(a.room.reopen.Add(reopenLast)) {
			a.room.pause = 0
		}
		return
	}
	if now.Before(a.room.reopen) || !a.applying.TryLock() {
		return
	}
	defer a.applying.Unlock()
	a.room.pause = min(max(2*a.room.pause, reopenFirst), reopenLast)
	a.log.Warn("streams could not be written and are read again", keyStream, stuck)
	begun := time.Now()
	err := a.engine.Reopen()
	a.room.reopen = time.Now().Add(a.room.pause)
	a.mu.Lock()
	a.roomStatus.reopens++
	a.mu.Unlock()
	if err != nil {
		a.log.Error("streams not read again", keyErr, err, keyFix, diag.Hint(err))
		return
	}
	a.log.Info("streams are written again", keyDur, time.Since(begun).Round(time.Millisecond).String())
}

// addRoom adds to the status what is left on the volume, and what is done about it.
func (a *Appliance) addRoom(s *admin.Storage) {
	a.mu.Lock()
	r := a.roomStatus
	a.mu.Unlock()
	s.MinFree, s.PublishingStopped, s.FullInSeconds = r.minFree, r.stopped, r.fullIn.Seconds()
	if r.stopped != "" {
		s.PublishingStoppedSince = &r.since
	}
	if r.broken != nil {
		s.WriteError = r.broken.Error()
	}
	s.WriteErrors = a.writeErrors()
	if l := a.probe.flushes.Lately(time.Now()); l.Count > 0 {
		s.Flushes = &admin.Latency{Count: l.Count, P50: l.P50, P99: l.P99, Max: l.Max}
	}
}

// writeErrors counts what could not be written since the start.
func (a *Appliance) writeErrors() uint64 { return a.probe.failed.Load() + a.engine.WriteErrors() }

// publishingStopped says why nothing is stored in files now; "" while it is.
func (a *Appliance) publishingStopped() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.roomStatus.stopped
}

// Storage is what is left of the volume, for metrics.
func (a *Appliance) Storage() metrics.Storage {
	a.mu.Lock()
	r := a.roomStatus
	a.mu.Unlock()
	out := metrics.Storage{MinFree: uint64(r.minFree), Stopped: r.stopped != "", Writable: r.broken == nil, FullIn: r.fullIn, Reopens: r.reopens}
	enc := a.engine.Encryption()
	out.Cipher, out.PreviousKey = string(enc.Cipher), enc.Previous
	for _, d := range engine.Damages(a.dir.StoreDir()) {
		if out.Damaged == nil {
			out.Damaged = map[string]int{}
		}
		out.Damaged[d.Account+"/"+d.Stream]++
	}
	if vol, err := a.dir.Volume(); err == nil {
		out.Total, out.Free, out.Promised = vol.Total, vol.Free, uint64(a.config().Promised(int64(vol.Total)))
	}
	out.Limit, out.WriteErrors = uint64(a.storeLimit), a.writeErrors()
	out.Flushes.Count, out.Flushes.Sum, out.Flushes.UpTo = a.probe.flushes.Histogram()
	if st, err := a.engine.Stats(); err == nil {
		out.Used, out.Reserved = uint64(max(st.StoreUsed, 0)), uint64(max(st.StoreReserved, 0))
	}
	out.Verify = a.verifyMetrics()
	return out
}

// storageMissing says what is wrong with the disk, for readiness.
func (a *Appliance) storageMissing() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.roomStatus.broken == nil {
		return nil
	}
	return []string{fmt.Sprintf("storage: %v", a.roomStatus.broken)}
}
