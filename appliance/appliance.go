// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/ingest"
	"github.com/holdfast-mq/holdfast/appliance/metrics"
	"github.com/holdfast-mq/holdfast/appliance/service"
	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// Options are what an appliance is opened with. Config and Log are required.
type Options struct {
	Config *config.Config // checked, without errors
	// Warnings are what checking the configuration found besides.
	Warnings diag.List
	Version  string
	Commit   string
	// AllowUnsafe accepts a data directory that does not keep what is written.
	AllowUnsafe bool
	Log         *slog.Logger
	Notify      service.Notifier
	// Load reads a configuration the way the node's own was read: from texts, or
	// without any from the node's files again.
	Load func(texts []config.Text) (*config.Config, diag.List)
	// Watched lists the files whose change is a reload; nil watches none.
	Watched func() []string
	// DriftEvery is how often the server is compared with the configuration; 5
	// minutes when it is 0.
	DriftEvery time.Duration
	// Step, if not nil, is called after each step of an apply. Tests end the process
	// in it.
	Step func(what string)
	// CertsEvery is how often certificates are looked at; certs.Every when it is 0.
	CertsEvery time.Duration
	// VerifyLook is how often the node looks whether it is time to read what is stored; a
	// minute when it is 0.
	VerifyLook time.Duration
	// Again is what an earlier Run of this process returned; nil the first time.
	Again *Again
	// OnReady is called once, when the client port is open and everything declared exists.
	OnReady func()
}

// Appliance is a node, from Open to Close.
type Appliance struct {
	opts    Options
	log     *slog.Logger
	started time.Time
	process string // tells this process from every other node's
	current atomic.Pointer[config.Config]
	// asRead is the node's own configuration as it was read last, with a block cluster that
	// may not be in force yet.
	asRead atomic.Pointer[config.Config]

	dir      *datadir.Dir
	identity *identity.Identity
	engine   *engine.Engine
	js       *jetstream.Client
	ingest   *ingest.Ingest
	// flush is how long the store's volume takes to make a message durable.
	flush    time.Duration
	memLimit int64
	// clientCerts are those of the client listener and of listen.http beyond
	// loopback; nil while everything is on loopback and nothing asks for TLS.
	clientCerts *certs.Store
	// storeLimit is storage.limit in bytes.
	storeLimit int64
	room       room
	probe      probe
	statusLine chan struct{} // the line in systemctl status is to be made anew
	verify     verifying
	// cluster is nil on a single node.
	cluster *cluster
	// growth is how a single node with messages becomes one of a cluster, and spread what
	// comes after that; else nil. held is the node whose messages this one waits for.
	growth *growth
	spread *spreading
	held   string

	adminListener net.Listener
	httpListener  net.Listener
	adminServer   *http.Server
	httpServer    *http.Server
	serving       sync.WaitGroup
	broken        chan error    // a listener that failed
	stopping      chan struct{} // closed when the stop begins
	feeding       sync.WaitGroup
	wasReady      sync.Once // OnReady was called

	seenKeys sync.Map // name of the user, by public key: all keys since the start

	publishing sync.Mutex        // serialises publishIdentity; guards published and carried
	published  map[string]string // account tokens that the server has, by public key

	applied chan struct{} // somebody applied, which may have left something to try again
	watched string        // what the configuration's files looked like when they were read

	applying sync.Mutex               // serialises what changes the topology; taken before publishing. Guards grouped and scratch
	grouped  map[string][]ingest.Lane // what goes through group commit on a single node, by account
	carried  map[string][]ingest.Lane // the same in a cluster
	scratch  map[string][]ingest.Lane // what does for the time of a measurement, by account

	mu         sync.Mutex // guards what follows; taken last, never while calling a part
	phase      admin.Phase
	waitsFor   string // what keeps it in PhaseJoining
	clientAddr net.Addr
	plan       bootstrap.Plan    // what stands between the server and the configuration
	compared   time.Time         // when plan was made
	report     *bootstrap.Report // of the latest apply; nil before the first
	// groups is what was decided of group commit, by account; nil before the first apply.
	groups map[string][]decision
	// stale is why the configuration was not applied: a newer one was. Else nil.
	stale error
	// changing is who is applying a configuration now; "" for nobody.
	changing string
	// told is what was logged last of things that fail again and again.
	told map[string]string
	// failing is since when things fail of which it is told when it lasts.
	failing map[string]time.Time
	// refused is why the latest reload was refused; nil when it was not.
	refused    *admin.Problem
	roomStatus roomStatus
}

// Open locks the data directory, reads or makes the identity, opens the admin
// socket and the HTTP listener and prepares the engine. Nothing runs before Run.
func Open(o Options) (_ *Appliance, err error) {
	a := &Appliance{
		opts:       o,
		log:        o.Log,
		started:    time.Now(),
		process:    rand.Text(),
		phase:      admin.PhaseStarting,
		broken:     make(chan error, 2),
		stopping:   make(chan struct{}),
		published:  map[string]string{},
		told:       map[string]string{},
		failing:    map[string]time.Time{},
		applied:    make(chan struct{}, 1),
		statusLine: make(chan struct{}, 1),
		scratch:    map[string][]ingest.Lane{},
	}
	if o.Watched != nil {
		// Now, and not after a long recovery: what changes meanwhile is a change.
		a.watched = look(o.Watched())
	}
	a.current.Store(o.Config)
	a.asRead.Store(o.Config)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	a.dir, err = datadir.Open(o.Config.Node.DataDir, datadir.Options{
		Version:     o.Version,
		NodeName:    o.Config.Node.Name,
		AllowUnsafe: o.AllowUnsafe,
	})
	if err != nil {
		return nil, err
	}
	// The socket comes next, so that status answers while a big store recovers.
	if a.adminListener, err = listenAdmin(a.dir); err != nil {
		return nil, err
	}
	if err := a.listenHTTP(); err != nil {
		return nil, err
	}
	if err := a.openIdentity(); err != nil {
		return nil, err
	}
	if err := a.openCerts(); err != nil {
		return nil, err
	}
	if err := a.openCluster(); err != nil {
		return nil, err
	}
	if err := a.openEngine(); err != nil {
		return nil, err
	}
	if err := a.prepareServers(); err != nil {
		return nil, err
	}
	return a, a.serveCluster()
}

func (a *Appliance) listenHTTP() error {
	addr := a.opts.Config.Listen.HTTP
	if addr == "" {
		return nil
	}
	l, err := net.Listen("tcp", string(addr))
	if err == nil {
		a.httpListener = l
		return nil
	}
	return engine.ListenError("listen.http", string(addr), err)
}

func (a *Appliance) openIdentity() error {
	stored, err := a.dir.StoredAccounts()
	if err != nil {
		return err
	}
	a.identity, err = identity.Open(identity.File{
		Path: a.dir.IdentityFile(), Write: datadir.WriteFile, Now: time.Now,
	}, stored)
	if err != nil {
		return err
	}
	a.rememberKeys() // those that the file no longer has, too
	return a.writeCreds()
}

func (a *Appliance) tellIdentity(c identity.Changes) {
	for _, m := range c.Made {
		switch m.Kind {
		case identity.KindUser:
			a.log.Info("user changed", keyAccount, m.Account, keyUser, m.User, keyWhat, m.What)
		case identity.KindAccount:
			a.log.Info("account changed", keyAccount, m.Account, keyWhat, m.What)
		case identity.KindLimits:
			a.log.Info("limits of account changed", keyAccount, m.Account, keyWhat, m.What)
		}
	}
	for _, m := range c.Unmanaged {
		a.log.Warn("not in the file, but still let in: this version removes nobody", keyAccount, m.Account, keyUser, m.User)
	}
}

func (a *Appliance) openEngine() error {
	vol, err := a.dir.Volume()
	if err != nil {
		return err
	}
	limit := a.opts.Config.Storage.Limit.Of(int64(vol.Total))
	a.memLimit = limitMemory(a.log)
	settings, err := a.engineSettings(limit)
	if err != nil {
		return err
	}
	if settings.Encryption, err = a.encryption(); err != nil {
		return err
	}
	a.engine, err = engine.New(
		settings, engine.Names{Account: a.accountName, User: a.userName, Subjects: ingest.AsPublished}, a.log)
	if err != nil {
		return err
	}
	a.published = a.identity.Trust().Preload
	a.js = a.newClient(a.engine)
	a.storeLimit = limit
	if err := a.shareIdentity(); err != nil {
		return err
	}
	if err := a.openIngest(); err != nil {
		return err
	}
	a.loadVerified()
	a.announce(vol)
	return nil
}

// newClient logs in to an engine as Holdfast itself.
func (a *Appliance) newClient(e *engine.Engine) *jetstream.Client {
	return jetstream.New(e, func(account string) (string, []byte, error) {
		login := a.identity.InternalLogin
		if account == identity.SystemName {
			login = func(string) (identity.Login, error) { return a.identity.SystemLogin() }
		}
		l, err := login(account)
		return l.Token, []byte(l.Seed.Reveal()), err
	})
}

func (a *Appliance) accountName(publicKey string) string {
	if name, ok := a.identity.AccountName(publicKey); ok {
		return name
	}
	return publicKey
}

// userName names the holder of a key. A key that was rotated away is still
// somebody's: who goes on using the old file is what one wants to know then.
func (a *Appliance) userName(account, publicKey string) string {
	if name := a.identity.UserName(account, publicKey); name != "" {
		a.seenKeys.Store(publicKey, name)
		return name
	}
	name, _ := a.seenKeys.Load(publicKey)
	text, _ := name.(string)
	return text
}

// rememberKeys keeps the names of all keys that are let in now.
func (a *Appliance) rememberKeys() {
	for _, i := range a.identity.List() {
		a.seenKeys.Store(i.PublicKey, i.User)
		for _, r := range i.Retiring {
			a.seenKeys.Store(r.PublicKey, i.User)
		}
	}
}

func (a *Appliance) prepareServers() error {
	a.adminServer = newServer(admin.WithInvites(admin.Handler(a, a, a, a, a), a))
	a.adminServer.ConnContext = admin.WithPeer
	if a.httpListener == nil {
		return nil
	}
	token, err := a.opts.Config.Listen.HTTPToken.Reveal()
	if err != nil {
		return err
	}
	ro := admin.ReadOnly{
		Ready:  a.Missing,
		Quorum: a.Quorum,
		Metrics: metrics.Handler(metrics.Build{
			Version: a.opts.Version, Commit: a.opts.Commit,
			NATSVersion: engine.ServerVersion(), GoVersion: runtime.Version(),
		}, a),
		NATS:  a.engine.HTTPHandler(),
		Hosts: a.opts.Config.Listen.Advertise,
		Token: token,
	}
	a.httpServer = newServer(ro.Handler())
	if !a.opts.Config.Listen.HTTP.Loopback() {
		a.httpServer.TLSConfig = a.clientCerts.TLSConfig()
	}
	return nil
}

// newServer bounds how long a reader may keep a connection busy.
func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}

// Close gives back everything that Open took. It may be called after a failed
// Open and after Run.
func (a *Appliance) Close() error {
	var errs []error
	if a.js != nil {
		a.js.Close()
	}
	if a.ingest != nil {
		a.ingest.Close()
	}
	if a.engine != nil {
		errs = append(errs, a.engine.Stop())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, s := range []*http.Server{a.httpServer, a.adminServer} {
		if s == nil {
			continue
		}
		if err := s.Shutdown(ctx); err != nil {
			errs = append(errs, s.Close())
		}
	}
	if a.cluster != nil {
		errs = append(errs, a.cluster.close())
	}
	errs = append(errs, a.growth.close())
	for _, l := range []net.Listener{a.httpListener, a.adminListener} {
		if l != nil {
			_ = l.Close() // closed by its server already, unless Run never came
		}
	}
	a.serving.Wait()
	if a.dir != nil {
		errs = append(errs, a.dir.Close())
	}
	a.setPhase(admin.PhaseStopped)
	return errors.Join(errs...)
}

func (a *Appliance) setPhase(p admin.Phase) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.phase = p
}
