// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
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
	// OnReady is called once, when the client port is open and everything declared exists.
	OnReady func()
}

// Appliance is a node, from Open to Close.
type Appliance struct {
	opts     Options
	log      *slog.Logger
	topology bootstrap.Topology
	started  time.Time

	dir      *datadir.Dir
	identity *identity.Identity
	engine   *engine.Engine
	js       *jetstream.Client
	memLimit int64
	// storeLimit is storage.limit in bytes.
	storeLimit int64

	adminListener net.Listener
	httpListener  net.Listener
	adminServer   *http.Server
	httpServer    *http.Server
	serving       sync.WaitGroup
	broken        chan error // a listener that failed

	mu         sync.Mutex // guards what follows; taken last, never while calling a part
	phase      admin.Phase
	clientAddr net.Addr
	plan       bootstrap.Plan
	report     *bootstrap.Report // of the latest apply; nil before the first
}

// Open locks the data directory, reads or makes the identity, opens the admin
// socket and the HTTP listener and prepares the engine. Nothing runs before Run.
func Open(o Options) (_ *Appliance, err error) {
	a := &Appliance{
		opts:     o,
		log:      o.Log,
		topology: bootstrap.FromConfig(o.Config, 1),
		started:  time.Now(),
		phase:    admin.PhaseStarting,
		broken:   make(chan error, 2),
	}
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
	if a.adminListener, err = admin.Listen(socketPath(a.dir)); err != nil {
		return nil, err
	}
	if err := a.listenHTTP(); err != nil {
		return nil, err
	}
	if err := a.openIdentity(); err != nil {
		return nil, err
	}
	if err := a.openEngine(); err != nil {
		return nil, err
	}
	return a, a.prepareServers()
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
	changes, err := a.identity.Apply(identityAccounts(a.opts.Config))
	if err != nil {
		return err
	}
	a.tellIdentity(changes)
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

// writeCreds keeps a credentials file for every declared user in the data
// directory, for clients on this machine.
func (a *Appliance) writeCreds() error {
	for _, acc := range identityAccounts(a.opts.Config) {
		for _, u := range acc.Users {
			creds, err := a.identity.Creds(acc.Name, u.Name)
			if err != nil {
				return fmt.Errorf("make credentials: %w", err)
			}
			path := a.CredsFile(acc.Name, u.Name)
			if have, err := os.ReadFile(path); err == nil && string(have) == string(creds) {
				continue
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return fmt.Errorf("make credentials directory: %w", err)
			}
			if err := datadir.WriteFile(path, creds, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// CredsFile is where the credentials of a declared user are.
func (a *Appliance) CredsFile(account, user string) string {
	return filepath.Join(a.dir.CredsDir(), account, user+".creds")
}

func (a *Appliance) openEngine() error {
	vol, err := a.dir.Volume()
	if err != nil {
		return err
	}
	limit := a.opts.Config.Storage.Limit.Of(int64(vol.Total))
	a.memLimit = limitMemory(a.log)
	// The server would make it readable for others.
	if err := os.MkdirAll(a.dir.ResolverDir(), 0o700); err != nil {
		return fmt.Errorf("make resolver directory: %w", err)
	}
	a.engine, err = engine.New(
		engineSettings(a.opts.Config, placeOf(a.dir), a.identity.Trust(), limit, a.memLimit, a.opts.Version),
		a.accountName, a.log)
	if err != nil {
		return err
	}
	a.js = jetstream.New(a.engine, func(account string) (string, []byte, error) {
		l, err := a.identity.InternalLogin(account)
		return l.Token, []byte(l.Seed.Reveal()), err
	})
	a.storeLimit = limit
	a.announce(vol)
	return nil
}

func (a *Appliance) accountName(publicKey string) string {
	if name, ok := a.identity.AccountName(publicKey); ok {
		return name
	}
	return publicKey
}

func (a *Appliance) prepareServers() error {
	a.adminServer = newServer(admin.Handler(a))
	if a.httpListener == nil {
		return nil
	}
	token, err := a.opts.Config.Listen.HTTPToken.Reveal()
	if err != nil {
		return err
	}
	ro := admin.ReadOnly{
		Ready: a.Missing,
		Metrics: metrics.Handler(metrics.Build{
			Version: a.opts.Version, Commit: a.opts.Commit,
			NATSVersion: engine.ServerVersion(), GoVersion: runtime.Version(),
		}, a),
		NATS:  a.engine.HTTPHandler(),
		Hosts: a.opts.Config.Listen.Advertise,
		Token: token,
	}
	a.httpServer = newServer(ro.Handler())
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
