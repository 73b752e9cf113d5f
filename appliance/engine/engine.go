// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Engine is one run of the embedded server: New, Start, OpenClientPort, then
// Drain or Stop. It can not be started again.
type Engine struct {
	settings Settings
	opts     *server.Options
	server   *server.Server
	resolver server.AccountResolver
	log      *serverLog
	recovery *recovery
	refusals *refusals

	// step is called between the changes that a start makes to the store. Tests end it there.
	step func(what string) error

	// stopLimit bounds a stop; tests shorten it.
	stopLimit time.Duration

	// fatal carries what nobody else would return; see record.
	fatal chan error
	// recorded is closed when the first fatal error is known.
	recorded chan struct{}

	begun    atomic.Bool
	stopping atomic.Bool
	ran      atomic.Bool // started, and not stopped cleanly since

	// jetStream is what JetStream ran with last; nil before it did.
	jetStream atomic.Pointer[server.JetStreamConfig]

	stagingMu sync.Mutex
	staging   string // directory in memory for batches; "" before it is needed

	mu       sync.Mutex
	cause    error         // the first fatal error
	owned    bool          // a caller is waiting and will return the error
	returned chan struct{} // closed when server.Start has returned; nil before
	addr     net.Addr      // of the open client port; nil before

	encryption EncryptionState
}

// New makes an engine from settings; the server does not run yet, but Stop must
// be called in the end. It writes the account JWTs that are newer than those in
// the resolver's directory.
func New(s Settings, names Names, log *slog.Logger) (*Engine, error) {
	if err := s.validate(); err != nil {
		return nil, configFault(err)
	}
	s.Encryption = s.Encryption.settle(s.StoreDir)
	opts, err := options(s)
	if err != nil {
		return nil, err
	}
	return build(s, opts, names, log)
}

// build makes an engine with options that are made from the settings.
func build(s Settings, opts *server.Options, names Names, log *slog.Logger) (*Engine, error) {
	srv, err := server.NewServer(opts)
	if err != nil {
		opts.AccountResolver.Close()
		return nil, configFault(err)
	}
	e := &Engine{
		settings:  s,
		opts:      opts,
		server:    srv,
		resolver:  opts.AccountResolver,
		stopLimit: 5 * time.Minute,
		step:      func(string) error { return nil },
		fatal:     make(chan error, 1),
		recorded:  make(chan struct{}),
	}
	e.recovery = newRecovery(names)
	e.refusals = newRefusals(names, log, e.closedConnections)
	e.log = newServerLog(log, names, e.recovery, e.refusals.fromLog, e.recordFatalf)
	go e.refusals.run()
	srv.SetLoggerV2(e.log, false, false, false)
	if err := e.loadAccounts(); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// loadAccounts makes the accounts known to the server before it starts, and
// finds out whether their JWTs reached the disk: the server ignores an error
// there. Streams of accounts that it meets only while it walks its store are
// recovered one after the other; those of accounts it knows, in parallel.
func (e *Engine) loadAccounts() error {
	for key, preload := range e.settings.Preload {
		stored, err := e.resolver.Fetch(key)
		if err == nil && issuedAt(stored) < issuedAt(preload) {
			err = errors.New("an older one is still there")
		}
		if err != nil {
			return diag.Fail(diag.CodeEngine,
				fmt.Errorf("store the JWT of account %q in %s: %w", e.log.names.name(key), e.settings.ResolverDir, err),
				"the directory must be writable and its volume must not be full")
		}
		if key == e.settings.SystemAccount {
			continue
		}
		if _, err := e.server.LookupAccount(key); err != nil {
			return configFault(fmt.Errorf("load account %q: %w", e.log.names.name(key), err))
		}
	}
	return nil
}

// InProcessConn returns a connection that needs no port. It works as soon as
// Start has returned.
func (e *Engine) InProcessConn() (net.Conn, error) {
	conn, err := e.server.InProcessConn()
	if err != nil {
		return nil, diag.Fail(diag.CodeNotReady, errors.New("connect to the engine: it is not running"),
			"wait until the node is ready")
	}
	return conn, nil
}

// Fatal delivers at most one error: the first thing nats-server called fatal
// after Start, or that it stopped by itself. The engine is of no use then and
// should be stopped.
func (e *Engine) Fatal() <-chan error { return e.fatal }

// recordFatalf takes the server's fatal log calls. It must not call the server:
// some of these calls are made with the server's lock held.
func (e *Engine) recordFatalf(format string, args ...any) {
	e.record(e.fatalError(format, args))
}

// record keeps the first fatal error. Either the caller of Start or
// OpenClientPort returns it, or Fatal delivers it, never both.
func (e *Engine) record(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause != nil {
		return
	}
	e.cause = err
	close(e.recorded)
	if !e.owned {
		e.fatal <- err
	}
}

// collect runs f for a caller who returns what is recorded meanwhile.
func (e *Engine) collect(f func() error) error {
	e.mu.Lock()
	e.owned = true
	e.mu.Unlock()

	err := f()

	e.mu.Lock()
	defer e.mu.Unlock()
	e.owned = false
	if err == nil {
		err = e.cause
	}
	return err
}

// failure returns the recorded fatal error, or nil.
func (e *Engine) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}

// fatalError puts a fatal log call of the server into our words. The texts are
// pinned by tests that make the real server fail.
func (e *Engine) fatalError(format string, args []any) error {
	cause := firstError(args)
	switch {
	case cause == nil:
	case format == "Can't start JetStream: %v":
		return diag.Fail(diag.CodeEngine, fmt.Errorf("start jetstream in %s: %w", e.settings.StoreDir, cause),
			"the directory must belong to the user that Holdfast runs as, and the disk limits of the accounts must fit into storage.limit together")
	case format == `Error listening on port: %s, %q`:
		return ListenError("listen.client", e.settings.clientAddr(), cause)
	}
	text := e.log.names.translate(fmt.Sprintf(format, args...))
	if cause != nil {
		return diag.Fail(diag.CodeEngine, &wrapped{"run nats-server: " + text, cause}, engineHint)
	}
	return diag.Fail(diag.CodeEngine, errors.New("run nats-server: "+text), engineHint)
}

const engineHint = "the log lines before this one say what led to it"

// wrapped is an error whose text already holds its cause's.
type wrapped struct {
	text  string
	cause error
}

func (w *wrapped) Error() string { return w.text }
func (w *wrapped) Unwrap() error { return w.cause }

func firstError(args []any) error {
	i := slices.IndexFunc(args, func(a any) bool { _, ok := a.(error); return ok })
	if i < 0 {
		return nil
	}
	return args[i].(error)
}

func (s Settings) clientAddr() string {
	return net.JoinHostPort(s.ClientHost, strconv.Itoa(s.ClientPort))
}
