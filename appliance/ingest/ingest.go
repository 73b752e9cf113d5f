// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Dialer opens connections into the server of this process.
type Dialer interface {
	InProcessConn() (net.Conn, error)
}

// Options is what ingest needs of its surroundings.
type Options struct {
	Dialer Dialer
	// Credentials returns the user JWT and the seed to use in an account.
	Credentials func(account string) (token string, seed []byte, err error)
	Listening   Listening
	// Maps reports whether the server leads what is published on a pattern to another
	// subject: it takes up the mappings of a token one after the other, and messages may come
	// before it has the way back. nil for one that always has.
	Maps func(account, from string) bool
	Log  *slog.Logger
}

// Lane is one stream whose messages ingest carries.
type Lane struct {
	Stream   string
	Subjects []string
	// Replicated says that the stream has copies on other nodes. Its messages are carried
	// in bursts, on each node those of its own clients: what is published on Own must stay
	// on the node. Nothing of the following is needed for that.
	Replicated bool
	// MaxMsgSize and MaxPayload are in bytes, of header and payload together.
	MaxMsgSize int
	MaxPayload int
	// OwnBatches says that clients may send atomic batches of their own.
	OwnBatches bool
	// Consumer is the only consumer of a work queue, without a filter, whose
	// acknowledgements are carried, too; "" for none. PurgeFilter covers what the stream
	// stores with one subject; "" where it takes more than one.
	Consumer    string
	PurgeFilter string

	// ReplyPrefix, BatchPrefix and Room, the bytes that may wait, are set by ingest.
	ReplyPrefix string
	BatchPrefix string
	Room        int
}

// Stats counts what went through an account, since the start.
type Stats struct {
	Alone      atomic.Uint64 // messages that went by themselves
	Grouped    atomic.Uint64 // messages that went in batches
	Batches    atomic.Uint64
	Fallbacks  atomic.Uint64 // batches that the server refused
	Refused    atomic.Uint64 // messages refused because too many waited
	Unanswered atomic.Uint64 // messages and batches that the server did not answer in time

	AcksAlone   atomic.Uint64 // acknowledgements that went by themselves
	AcksGrouped atomic.Uint64 // acknowledgements whose messages were removed together
	Purges      atomic.Uint64
}

// Ingest carries messages for any number of accounts.
type Ingest struct {
	opts Options

	mu       sync.Mutex
	accounts map[string]*account
	closed   bool
}

// New returns an Ingest that carries nothing yet.
func New(o Options) *Ingest { return &Ingest{opts: o, accounts: make(map[string]*account)} }

// Set makes an account's lanes those given, and returns when messages that are led to
// them arrive. Lanes that are not among them end after what they have.
func (i *Ingest) Set(ctx context.Context, name, secret string, lanes []Lane) error {
	i.mu.Lock()
	if i.closed {
		i.mu.Unlock()
		return net.ErrClosed
	}
	a := i.accounts[name]
	if a == nil {
		if len(lanes) == 0 {
			i.mu.Unlock()
			return nil
		}
		a = newAccount(name, secret, i.opts)
		i.accounts[name] = a
	}
	i.mu.Unlock()
	return a.set(ctx, lanes)
}

// Accounts returns the counters of each account.
func (i *Ingest) Accounts() map[string]*Stats {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make(map[string]*Stats, len(i.accounts))
	for name, a := range i.accounts {
		out[name] = &a.stats
	}
	return out
}

// Connections returns how many connections ingest holds.
func (i *Ingest) Connections() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := 0
	for _, a := range i.accounts {
		if a.connected.Load() {
			n++
		}
	}
	return n
}

// Close ends all connections. What waits goes to its stream before, and who is to be
// answered is, within a moment.
func (i *Ingest) Close() {
	i.mu.Lock()
	i.closed = true
	accounts := i.accounts
	i.accounts = nil
	i.mu.Unlock()
	for _, a := range accounts {
		close(a.stop)
	}
	for _, a := range accounts {
		<-a.done
	}
}

// account is one connection with its lanes.
type account struct {
	name, secret string
	opts         Options
	stats        Stats
	connected    atomic.Bool

	// wanted are the lanes to carry; set replaces them, the loop takes them over.
	mu     sync.Mutex
	wanted []Lane
	taken  chan struct{} // closed when wanted is carried
	change chan struct{}

	stop chan struct{}
	done chan struct{}
}

func newAccount(name, secret string, o Options) *account {
	a := &account{
		name: name, secret: secret, opts: o, taken: make(chan struct{}), change: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go a.run()
	return a
}

func (a *account) set(ctx context.Context, lanes []Lane) error {
	a.mu.Lock()
	a.wanted = slices.Clone(lanes)
	taken := make(chan struct{})
	a.taken = taken
	a.mu.Unlock()
	select {
	case a.change <- struct{}{}:
	default:
	}
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-a.done:
		return net.ErrClosed
	}
}

// reconnectAfter is between attempts to connect.
const reconnectAfter = 50 * time.Millisecond

// run keeps a connection for as long as the account is carried. Messages that come
// while there is none get the server's answer that nobody responds, and are sent again.
func (a *account) run() {
	defer close(a.done)
	for {
		err := a.session()
		a.connected.Store(false)
		select {
		case <-a.stop:
			return
		default:
		}
		a.opts.Log.Warn("connection of group commit lost, made again", "account", a.name, "error", err)
		select {
		case <-a.stop:
			return
		case <-time.After(reconnectAfter):
		}
	}
}

// session is one connection from login to end.
func (a *account) session() error {
	token, seed, err := a.opts.Credentials(a.name)
	if err != nil {
		return fmt.Errorf("get credentials: %w", err)
	}
	conn, err := a.opts.Dialer.InProcessConn()
	if err != nil {
		return fmt.Errorf("connect in process: %w", err)
	}
	w, info, err := handshake(conn, token, seed)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	a.connected.Store(true)
	s := newSession(a, w, info)
	return s.run()
}
