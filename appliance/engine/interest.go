// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"

	"github.com/nats-io/nats-server/v2/server"
)

// Interest returns whether anybody in an account listens to a subject, streams
// included; false for an account that is not known.
func (e *Engine) Interest(accountKey, subject string) bool {
	acc, err := e.server.LookupAccount(accountKey)
	// The server counts up to the first that it finds, so it is no more than this.
	return err == nil && acc.Interest(subject) > 0
}

// Maps reports whether the server leads what an account's clients publish on a pattern to
// another subject.
func (e *Engine) Maps(accountKey, from string) bool {
	z, err := e.server.Accountz(&server.AccountzOptions{Account: accountKey})
	return err == nil && z.Account != nil && len(z.Account.Mappings[from]) > 0
}

// Unmap has the server lead what is published on these patterns nowhere else any more,
// until it gets another token of the account.
func (e *Engine) Unmap(accountKey string, from []string) {
	acc, err := e.server.LookupAccount(accountKey)
	if err != nil {
		return // nobody can publish in it
	}
	for _, f := range from {
		acc.RemoveMapping(f)
	}
}

// Listening returns a number that grows with every subscription that begins or ends in
// an account, streams' own included.
func (e *Engine) Listening(accountKey string) (uint64, error) {
	sz, err := e.server.Subsz(&server.SubszOptions{Account: accountKey})
	if err != nil {
		return 0, err
	}
	return sz.NumInserts + sz.NumRemoves, nil
}

// Listener is one subscription. Client is false for those of the server itself, as
// streams have them.
type Listener struct {
	Subject string
	Client  bool
}

// Listeners returns all subscriptions of an account. It takes time in proportion to
// their number.
func (e *Engine) Listeners(accountKey string) ([]Listener, error) {
	sz, err := e.server.Subsz(&server.SubszOptions{Account: accountKey, Subscriptions: true, Limit: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	out := make([]Listener, 0, len(sz.Subs))
	for _, s := range sz.Subs {
		out = append(out, Listener{Subject: s.Subject, Client: e.server.GetClient(s.Cid) != nil})
	}
	return out, nil
}
