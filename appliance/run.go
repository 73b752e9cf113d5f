// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
)

const (
	// progressEvery is how often a long recovery tells how far it is.
	progressEvery = 5 * time.Second
	// startExtension is what a start that makes progress asks of systemd; more
	// than progressEvery, so that one late tick does no harm.
	startExtension = 30 * time.Second
)

// Run runs the node until drain or now is done, or a part breaks. When drain
// is done clients are sent away first; when now is, they are cut off. Both end
// in a clean stop.
func (a *Appliance) Run(drain, now context.Context) error {
	a.serve()
	hup, stopHup := a.watchHangups()
	defer stopHup()
	// A part that breaks while the node starts ends the start.
	starting, cancel := context.WithCancelCause(drain)
	defer cancel(nil)
	go func() {
		select {
		case err := <-a.broken:
			a.broken <- err // for the wait below
			cancel(err)
		case <-starting.Done():
		}
	}()

	ready, err := a.start(starting)
	switch {
	case drain.Err() != nil:
		err = nil // asked to stop while starting
	case err == nil:
		err = a.tend(drain, hup, ready)
	}
	cancel(nil)
	a.feeding.Wait() // a sign of life during the stop would make systemd watch it
	if errors.Is(err, errAgain) {
		return a.stopForAgain(drain)
	}
	return errors.Join(err, a.stop(now))
}

var errAgain = errors.New("the node is to be opened anew")

// stopForAgain stops the node, which goes on at once: nobody is told that it stops.
func (a *Appliance) stopForAgain(ctx context.Context) error {
	out := &Again{since: time.Now()}
	defer a.feedUnasked(ctx)()
	a.opts.Notify.Status("opening anew as one of the cluster")
	a.setPhase(admin.PhaseDraining)
	close(a.stopping)
	a.js.Close()
	a.ingest.Close()
	err := a.engine.Stop()
	if a.growth != nil && err == nil {
		out.failed = a.enter(ctx)
	}
	if err = errors.Join(err, a.Close()); err != nil {
		return err
	}
	if out.failed != nil {
		a.log.Error("the messages of this node are not in the cluster, it goes on as a single one", keyErr, out.failed, keyFix, diag.Hint(out.failed))
	}
	return out
}

// tend keeps credentials and certificates current while it waits for the end.
func (a *Appliance) tend(drain context.Context, hup <-chan os.Signal, ready bool) error {
	ctx, cancel := context.WithCancel(drain)
	var tending sync.WaitGroup
	defer func() {
		cancel()
		tending.Wait()
	}()
	tending.Go(func() { a.tendIdentity(ctx) })
	tending.Go(func() { a.tendStatusLine(ctx) })
	tending.Go(func() { a.tendRoom(ctx) })
	tending.Go(func() { a.tendVerify(ctx) })
	tending.Go(func() { a.tendNotes(ctx) })
	files := make(chan struct{}, 1)
	tending.Go(func() { a.watchFiles(ctx, files) })
	led, again := make(chan struct{}, 1), make(chan struct{}, 1)
	if a.cluster != nil {
		tending.Go(func() { a.tendCluster(ctx, led) })
	}
	switch {
	case a.growth != nil:
		tending.Go(func() { a.tendGrowth(ctx, again) })
	case a.held != "":
		tending.Go(func() { a.tendHeld(ctx, again) })
	case a.spread != nil:
		tending.Go(func() { a.tendSpread(ctx, led) })
	}
	// A start leaves garbage the size of the configuration and the plan, and an
	// idle node would keep it.
	tending.Go(debug.FreeOSMemory)
	if a.clientCerts != nil {
		tending.Go(func() { a.tendNames(ctx) })
		tending.Go(func() {
			a.clientCerts.Run(ctx, a.certsEvery(),
				func() { a.log.Info("certificates changed") },
				func(err error) {
					a.log.Error("certificates not brought up to date, the old ones are served on", keyErr, err, keyFix, diag.Hint(err))
				})
		})
	}
	return a.wait(drain, wakes{hup: hup, files: files, led: led, again: again}, ready)
}

// serve starts the two HTTP servers. They end in stop.
func (a *Appliance) serve() {
	run := func(s *http.Server, l net.Listener, name string) {
		if s == nil {
			return
		}
		a.serving.Go(func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				a.broken <- fmt.Errorf("serve %s: %w", name, err)
			}
		})
	}
	run(a.adminServer, a.adminListener, "the admin socket")
	l := a.httpListener
	if a.httpServer != nil && a.httpServer.TLSConfig != nil {
		l = tls.NewListener(l, a.httpServer.TLSConfig)
	}
	run(a.httpServer, l, "listen.http")
}

// start brings the engine up, applies the topology, and opens the client port
// after it: a publisher that comes early would find no stream. It reports
// whether the node was ready then.
func (a *Appliance) start(ctx context.Context) (ready bool, err error) {
	if err := a.greet(ctx); err != nil {
		return false, err
	}
	a.setPhase(admin.PhaseRecovering)
	// At once: the first report of progress may come when a short limit is over.
	a.opts.Notify.Extend(startExtension, "recovering streams")
	stopFeeding := func() {}
	if a.opts.Again != nil {
		stopFeeding = a.feedUnasked(ctx)
	}
	defer stopFeeding() // more than once does no harm
	if err := a.startEngine(ctx); err != nil {
		return false, err
	}
	if a.spread != nil {
		if err := a.admit(ctx); err != nil {
			return false, err
		}
	}
	// Before READY=1, at which systemd begins to watch.
	a.feeding.Go(func() { a.feedWatchdog(ctx) })
	if a.cluster == nil { // which applies when there is a leader
		a.setPhase(admin.PhaseApplying)
		a.opts.Notify.Status("applying the configuration")
		if err := a.apply(ctx, byStart); err != nil {
			return false, err
		}
	}
	a.markUsed()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if a.cluster != nil { // what is led through group commit is so as of the first client
		if err := a.publishIdentity(ctx); err != nil {
			a.log.Warn("credentials not brought up to date, tried again soon", keyErr, err)
		}
		a.tellShared()
	}
	a.lookAtVolume() // publishers must not come before the brake
	addr, err := a.engine.OpenClientPort()
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	if a.held == "" {
		a.clientAddr = addr
	}
	a.phase = admin.PhaseRunning
	a.mu.Unlock()
	if again := a.opts.Again; again != nil && again.failed == nil && a.held == "" {
		a.log.Info("open for clients again", keyDur, time.Since(again.since).Round(time.Millisecond).String())
	}
	return a.tellStarted(), nil
}

// markUsed notes that there is a store. The accounts' directories exist as of their
// first stream.
func (a *Appliance) markUsed() {
	if stored, err := a.dir.StoredAccounts(); err == nil && len(stored) > 0 {
		if err := a.dir.MarkUsed(); err != nil {
			a.log.Warn("store not marked as in use: a start without it would not be noticed", keyErr, err)
		}
	}
}

func (a *Appliance) startEngine(ctx context.Context) error {
	begun := time.Now()
	done := make(chan error, 1)
	go func() { done <- a.engine.Start(ctx) }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err == nil {
				a.tellRecovered(time.Since(begun))
			}
			return err
		case <-tick.C:
			a.tellProgress(a.engine.Progress())
		}
	}
}

// tellProgress tells the log and systemd how far a long recovery is.
func (a *Appliance) tellProgress(p engine.Progress) {
	switch {
	case p.Doing != "":
		a.log.Info("preparing streams", keyWhat, p.Doing, keyCount, p.StreamsDone, keyTotal, p.StreamsTotal, keyStream, p.Current)
	case p.Checking():
		a.log.Info("checking stored messages", keyBytes, humanize.IBytes(uint64(p.BytesChecked)), keyTotal, humanize.IBytes(uint64(p.BytesToCheck)))
	default:
		a.log.Info("recovering streams", keyCount, p.StreamsDone, keyTotal, p.StreamsTotal,
			keyBytes, humanize.IBytes(uint64(p.BytesDone)), keyStream, p.Current)
	}
	a.opts.Notify.Extend(startExtension, recoveryLine(p))
}

func recoveryLine(p engine.Progress) string {
	if !p.Counted() {
		return "counting what is stored"
	}
	if p.Doing != "" {
		return fmt.Sprintf("%s streams: %d of %d, now %s", p.Doing, p.StreamsDone, p.StreamsTotal, p.Current)
	}
	if p.Checking() {
		return fmt.Sprintf("checking stored messages: %s of %s", humanize.IBytes(uint64(p.BytesChecked)), humanize.IBytes(uint64(p.BytesToCheck)))
	}
	return fmt.Sprintf("recovering streams: %d of %d, %s of %s", p.StreamsDone, p.StreamsTotal,
		humanize.IBytes(uint64(p.BytesDone)), humanize.IBytes(uint64(p.BytesTotal)))
}

func (a *Appliance) tellRecovered(dur time.Duration) {
	p := a.engine.Progress()
	if p.StreamsTotal > 0 {
		a.log.Info("streams recovered", keyCount, p.StreamsDone, keyTotal, p.StreamsTotal,
			keyBytes, humanize.IBytes(uint64(p.BytesTotal)), keyDur, dur.Round(time.Millisecond).String())
	}
	a.tellEncryption()
	for _, s := range p.Restored {
		a.log.Warn("a crash had left metadata without its checksum, which has been written again", keyStream, s)
	}
	for _, s := range p.StartedOver {
		a.log.Warn("a crash had destroyed the position of a consumer: it starts over, and what was acknowledged is delivered again", keyConsumer, s)
	}
	for _, d := range p.Damaged {
		a.log.Error("a stream was damaged on the disk, what is whole is served", keyStream, d.Account+"/"+d.Stream, keyWhat, d.String(), "original", d.Original,
			keyFix, "look at the disk; remove the quarantine in the data directory when you have seen it")
	}
	for _, s := range p.Unrecovered {
		a.log.Error("stream not recovered, its files are still in the data directory", keyStream, s)
	}
	a.tellSpace()
}

// announce logs what a reader of the log wants to know first.
func (a *Appliance) announce(vol datadir.Volume) {
	cfg := a.opts.Config
	file := "built-in starter"
	if f := cfg.Files(); len(f) > 0 {
		file = f[0]
	}
	a.log.Info("holdfast starting", keyVersion, a.opts.Version, "nats_server", engine.ServerVersion(), keyNode, a.dir.NodeName())
	a.log.Info("configuration read", keyConfig, file, keyDigest, digest(cfg))
	a.log.Info("data directory open", keyDataDir, a.dir.Path(), "file_system", vol.FSType,
		keyLimit, humanize.IBytes(uint64(a.storeLimit)), "free", humanize.IBytes(vol.Free))
	if cfg.Storage.Durability == "strict" {
		a.log.Info("durability is strict: fsync before each acknowledgement")
	} else {
		a.log.Warn("durability is interval: a power cut loses what was acknowledged since the last fsync",
			"sync_interval", config.Duration(syncInterval(cfg)).String())
	}
	a.tellDisk()
	a.warn(a.opts.Warnings)
	for _, w := range a.dir.Warnings() {
		a.log.Warn("data directory is not safe", keyWhat, w)
	}
}

// tellSpace warns when the volume is too full already for what the streams may
// still take.
func (a *Appliance) tellSpace() {
	vol, err := a.dir.Volume()
	if err != nil {
		return // it was readable a moment ago, and status shows it
	}
	st, err := a.engine.Stats()
	if err != nil {
		return
	}
	promised := a.config().Promised(int64(vol.Total))
	if left := promised - st.StoreUsed; left > 0 && uint64(left) > vol.Free {
		a.log.Warn("volume is too full for what the streams may take", keyLimit, humanize.IBytes(uint64(promised)),
			"used", humanize.IBytes(uint64(st.StoreUsed)), "free", humanize.IBytes(vol.Free),
			keyFix, "free space on the volume, or lower max_bytes of streams or storage.limit")
	}
}

func (a *Appliance) warn(l diag.List) {
	for _, p := range l {
		a.log.Warn("configuration warning", keyCode, string(p.Code), keyWhere, p.Pos.String(), keyWhat, subject(p), keyFix, p.Fix)
	}
}

// subject is what a problem is about and what it is, without its place.
func subject(p diag.Problem) string {
	if p.Path == "" {
		return p.What
	}
	return p.Path + ": " + p.What
}

// tellStarted says where clients connect. The node may still miss parts of
// its topology; tellReady comes when it does not.
func (a *Appliance) tellStarted() (ready bool) {
	for _, l := range a.listeners() {
		if l.Open {
			a.log.Info("listening", keyListener, l.Name, keyAddress, l.Address)
		}
	}
	if len(a.Missing()) > 0 {
		// Bounded by the apply: a single node's dependents are not kept waiting
		// for what may never come.
		a.opts.Notify.Ready(a.StatusLine())
		return false
	}
	a.tellReady()
	return true
}

func (a *Appliance) tellReady() {
	a.markUsed()
	a.log.Info("ready", keyDur, time.Since(a.started).Round(time.Millisecond).String())
	a.opts.Notify.Ready(a.StatusLine())
	if a.opts.OnReady != nil {
		a.wasReady.Do(a.opts.OnReady)
	}
}

// stop ends everything in the reverse order of the start.
func (a *Appliance) stop(now context.Context) error {
	a.setPhase(admin.PhaseDraining)
	close(a.stopping)
	a.opts.Notify.Stopping()
	a.log.Info("stopping", keyCount, a.connections(), keyMode, stopMode(now))
	// The server writes the state of each consumer, 10 ms each: a node with
	// thousands needs longer than a service manager waits unasked.
	done := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() { a.askForTime(now, done) })
	a.leadAway()
	// Our own connections first, or the lame duck would wait for them. What waits for a
	// stream is answered while this node still leads it.
	a.js.Close()
	a.ingest.Close()
	err := a.engine.Drain(now)
	close(done)
	asking.Wait()
	// The admin socket stays until the engine is down: whoever asks is told.
	err = errors.Join(err, a.Close())
	if err == nil {
		a.log.Info("stopped")
		a.opts.Notify.Status("stopped")
	}
	return err
}

func stopMode(now context.Context) string {
	if now.Err() != nil {
		return "at once"
	}
	return "drain"
}

func (a *Appliance) connections() int {
	s, err := a.engine.Stats()
	if err != nil {
		return 0
	}
	return max(s.Connections-a.ownConnections(), 0)
}
