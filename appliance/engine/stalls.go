// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// stalledFor is how long a copy has to try in vain before somebody does something. The
	// server tries every 4 s, and most copies get on at the second.
	stalledFor = 12 * time.Second
	// stalledPause is what two such tries are apart at most.
	stalledPause = 8 * time.Second
)

// textStalled ends what the server says each time a copy that catches up gets something
// else than what comes next. After a node was cut off it can go on so until the leader
// makes a snapshot, minutes later (raft.go of nats-server 2.15.3).
const textStalled = "] Expected first catchup entry to be a snapshot and peerstate, will retry"

// stalls knows which groups of servers try to catch up here, in vain.
type stalls struct {
	now func() time.Time

	mu     sync.Mutex
	groups map[string]*stall // by the server's name of the group
}

type stall struct{ first, last time.Time }

func newStalls(now func() time.Time) *stalls {
	return &stalls{now: now, groups: map[string]*stall{}}
}

// warning takes what the server warns of.
func (s *stalls) warning(text string) {
	head, ok := strings.CutSuffix(text, textStalled)
	_, group, named := strings.Cut(head, " - ")
	if !ok || !named {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if g := s.groups[group]; g != nil && now.Sub(g.last) <= stalledPause {
		g.last = now
		return
	}
	s.groups[group] = &stall{now, now}
}

// due are the groups that have tried for long enough. They begin anew then.
func (s *stalls) due() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, now := map[string]bool{}, s.now()
	for name, g := range s.groups {
		switch {
		case now.Sub(g.last) > stalledPause:
			delete(s.groups, name)
		case g.last.Sub(g.first) >= stalledFor:
			out[name] = true
			delete(s.groups, name)
		}
	}
	return out
}

// Replicated is a stream, or a consumer of one, with copies on several nodes.
type Replicated struct{ Account, Stream, Consumer string }

// Stalled are those whose copy on this node has tried for some time to catch up, in vain.
// Each is returned once, and again when it goes on.
func (e *Engine) Stalled() ([]Replicated, error) {
	groups := e.log.stalls.due()
	if len(groups) == 0 {
		return nil, nil
	}
	js, err := e.server.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Consumer: true, RaftGroups: true, Limit: mostAccounts})
	if err != nil {
		return nil, fmt.Errorf("read the groups of the streams: %w", err)
	}
	var out []Replicated
	for _, a := range js.AccountDetails {
		account := e.log.names.name(a.Id)
		for _, s := range a.Streams {
			if groups[s.RaftGroup] {
				out = append(out, Replicated{Account: account, Stream: s.Name})
			}
			for _, c := range s.ConsumerRaftGroups {
				if groups[c.RaftGroup] {
					out = append(out, Replicated{Account: account, Stream: s.Name, Consumer: c.Name})
				}
			}
		}
	}
	return out, nil
}
