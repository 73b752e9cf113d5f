// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"slices"
	"strconv"
	"time"
)

const (
	// leadEvery is how often it is looked which streams this node leads.
	leadEvery = 100 * time.Millisecond
	// nodes is the queue group of all nodes. While one leader follows another, two may
	// listen.
	nodes = "_hf"
)

// replicated is a replicated stream: what its publishers send comes here while this node
// leads it.
type replicated struct {
	*bursts
	sid       int // of its messages, for as long as it is wanted
	listening bool
	acks      int       // subscription of acknowledgements that are passed on; 0 for none
	ended     time.Time // zero while it is wanted
}

// takeReplicated makes the replicated streams those that are wanted.
func (s *session) takeReplicated(wanted []Lane) {
	now := time.Now()
	for _, r := range s.copied {
		if r.ended.IsZero() && !slices.ContainsFunc(wanted, func(l Lane) bool { return l.Stream == r.Stream && l.Replicated }) {
			s.listen(r, false)
			if r.acks != 0 {
				s.w.unsubscribe(r.acks)
			}
			r.release()
			r.ended = now
		}
	}
	for _, l := range wanted {
		if !l.Replicated {
			continue
		}
		l.Room = room(len(wanted))
		if r := s.carried(l.Stream); r != nil {
			r.Room = l.Room
			continue
		}
		sid := s.nextSID
		s.nextSID++
		l.ReplyPrefix = s.inbox(strconv.Itoa(sid) + ".")
		r := &replicated{bursts: newBursts(l, s, &s.a.stats), sid: sid}
		s.copied[sid] = r
		if l.Consumer != "" {
			// They are led here since the stream had one copy.
			r.acks = s.nextSID
			s.nextSID++
			s.w.subscribe(r.acks, nodes, ackInPrefix+l.Stream+"."+l.Consumer+".>")
		}
	}
	s.looked = time.Time{}
	s.lookWhoLeads(now)
}

func (s *session) carried(stream string) *replicated {
	for _, r := range s.copied {
		if r.Stream == stream && r.ended.IsZero() {
			return r
		}
	}
	return nil
}

// passAck passes on an acknowledgement that was led here.
func (s *session) passAck(f frame) {
	for _, r := range s.copied {
		if r.acks == f.sid {
			s.forward(append([]byte(ackPrefix), f.subject[len(ackInPrefix):]...), f.reply, nil, f.header, f.payload)
			return
		}
	}
}

// lookWhoLeads listens to the publishers of the streams that this node leads.
func (s *session) lookWhoLeads(now time.Time) {
	if len(s.copied) == 0 || now.Sub(s.looked) < leadEvery {
		return
	}
	s.looked = now
	for sid, r := range s.copied {
		switch {
		case r.ended.IsZero():
			s.listen(r, s.a.opts.Leads(s.a.name, r.Stream))
		case now.Sub(r.ended) > patience:
			// What the server had sent before it knew has come.
			delete(s.copied, sid)
		}
	}
}

func (s *session) listen(r *replicated, on bool) {
	if r.listening == on {
		return
	}
	if r.listening = on; on {
		s.w.subscribe(r.sid, nodes, inPrefix+r.Stream+".>")
	} else {
		s.w.unsubscribe(r.sid)
	}
}

// pumpBursts is pump for replicated streams, and returns the earlier of next and when one
// of them has more to send.
func (s *session) pumpBursts(now, next time.Time) time.Time {
	if len(s.copied) > 0 {
		next = earlier(next, now.Add(leadEvery))
	}
	for _, r := range s.copied {
		if !r.busy() {
			continue
		}
		r.pump(now)
		if t := r.next(); !t.IsZero() {
			next = earlier(next, t)
		}
	}
	return next
}
