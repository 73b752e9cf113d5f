// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The reasons of a Refusal.
const (
	ReasonPublish            = "publish"             // no permission for the subject
	ReasonSubscribe          = "subscribe"           // no permission for the subject
	ReasonReply              = "reply"               // a reply subject that is the server's own
	ReasonAuthentication     = "authentication"      // no, unknown, expired or revoked credentials
	ReasonAccountConnections = "account_connections" // the account has as many as it may
	ReasonConnections        = "connections"         // the node has as many as it may
	ReasonSubscriptions      = "subscriptions"       // the connection has as many as it may
	ReasonPayload            = "payload"             // a message is too large
	ReasonTLS                = "tls"                 // the handshake did not work
)

// Refusal counts what one user was refused for one reason since the start.
//
// The server tells of at most one refused subscription for the reason
// "subscriptions" in each account and two seconds, so there may have been more.
type Refusal struct {
	// Account and User are names, public keys when nobody knows the names, or
	// "" when a connection was refused before it said who it is. With the reason
	// authentication they are a claim that nobody has proven.
	Account, User string
	Reason        string
	Count         uint64
	Last          time.Time
	// Example is the subject, or the address and what was wrong, of the last one.
	Example string
}

const (
	// Above these bounds on memory and log lines everything counts for one user.
	// Anybody can make up users who are refused, so that those have a bound of
	// their own, or they would crowd out the others.
	mostRefusals  = 1000
	mostStrangers = 50
	otherUsers    = "(others)"

	exampleLength = 200
)

// refusalKey holds public keys.
type refusalKey struct{ account, user, reason string }

type refusalEntry struct {
	Refusal
	told      time.Time // when the log last told of it
	toldCount uint64    // and of how many in all
}

// refusals counts what the server refuses. Violations of connections that live
// on come from the server's log calls (fromLog), refused connections from its
// list of closed ones (sweep): their log calls name no user, and some are made
// once a minute only.
//
// A goroutine, run, sweeps and writes the log, so that no log call waits for it
// or for the server's locks, which the caller may hold.
type refusals struct {
	names  Names
	log    *slog.Logger
	closed func() []*server.ConnInfo
	now    func() time.Time

	kick chan struct{} // there is something to do
	quit chan struct{}
	done chan struct{}
	once sync.Once

	// sweeping is taken before mu.
	sweeping sync.Mutex
	seen     map[uint64]bool // connections that were in the list at the last sweep

	mu         sync.Mutex
	entries    map[refusalKey]*refusalEntry
	strangers  int
	handshakes map[uint64]handshake // by connection, until the sweep finds it
}

func newRefusals(names Names, log *slog.Logger, closed func() []*server.ConnInfo) *refusals {
	return &refusals{
		names:      names,
		log:        log.With("component", "engine"),
		closed:     closed,
		now:        time.Now,
		kick:       make(chan struct{}, 1),
		quit:       make(chan struct{}),
		done:       make(chan struct{}),
		entries:    make(map[refusalKey]*refusalEntry),
		handshakes: make(map[uint64]handshake),
	}
}

// Refusals returns what clients were refused since the start, sorted.
func (e *Engine) Refusals() []Refusal {
	e.refusals.sweep()
	return e.refusals.list()
}

// add counts one refusal. A stranger is a user who has proven nothing.
func (r *refusals) add(k refusalKey, stranger bool, at time.Time, example string) {
	// The lookup of a stranger's name is not made with the lock held.
	stranger = stranger && !r.known(k)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[k]
	if e == nil {
		full := len(r.entries) >= mostRefusals || stranger && r.strangers >= mostStrangers
		if full {
			k = refusalKey{user: otherUsers, reason: k.reason}
			e = r.entries[k]
		}
		if e == nil {
			e = &refusalEntry{}
			r.entries[k] = e
			r.wake() // the first is told at once, more of the same later
			if stranger && !full {
				r.strangers++
			}
		}
	}
	e.Count++
	if !at.Before(e.Last) {
		e.Last, e.Example = at, clip(example)
	}
}

// known reports whether both keys have names; no user at all is one entry only.
func (r *refusals) known(k refusalKey) bool {
	if k.user == "" {
		return true
	}
	account := r.names.name(k.account)
	return account != k.account && r.names.user(account, k.user) != k.user
}

// clip bounds a text that a client has chosen, and keeps it from steering a
// terminal.
func clip(s string) string {
	if len(s) > exampleLength {
		s = s[:exampleLength] + "…"
	}
	return printable(s)
}

// named returns an entry with names in place of keys.
func (r *refusals) named(k refusalKey, v Refusal) Refusal {
	v.Reason, v.User = k.reason, k.user
	if k.account != "" {
		v.Account = r.names.name(k.account)
	}
	if k.user != otherUsers {
		v.User = r.names.user(v.Account, k.user)
	}
	return v
}

// list adds up the entries of users whose keys were changed.
func (r *refusals) list() []Refusal {
	r.mu.Lock()
	entries := make(map[refusalKey]Refusal, len(r.entries))
	for k, e := range r.entries {
		entries[k] = e.Refusal
	}
	r.mu.Unlock()

	sums := make(map[refusalKey]Refusal, len(entries))
	for k, v := range entries {
		v = r.named(k, v)
		name := refusalKey{v.Account, v.User, v.Reason}
		if sum, ok := sums[name]; ok {
			v.Count += sum.Count
			if v.Last.Before(sum.Last) {
				v.Last, v.Example = sum.Last, sum.Example
			}
		}
		sums[name] = v
	}
	all := make([]Refusal, 0, len(sums))
	for _, v := range sums {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.User, b.User), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
