// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"slices"
	"strconv"
	"time"
)

// replicated is a replicated stream: what the clients of this node publish for it.
type replicated struct {
	*bursts
	sid   int       // of its messages
	acks  int       // of acknowledgements that are passed on; 0 for none
	ended time.Time // zero while it is wanted
}

// takeReplicated makes the replicated streams those that are wanted.
func (s *session) takeReplicated(wanted []Lane) {
	now := time.Now()
	for sid, r := range s.copied {
		switch {
		case !r.ended.IsZero():
			if now.Sub(r.ended) > patience {
				delete(s.copied, sid) // what the server had sent before it knew has come
			}
		case !slices.ContainsFunc(wanted, func(l Lane) bool { return l.Stream == r.Stream && l.Replicated }):
			s.w.unsubscribe(r.sid)
			if r.acks != 0 {
				s.w.unsubscribe(r.acks)
			}
			if s.canSend() {
				r.release()
			}
			r.ended = now
		}
	}
	for _, l := range wanted {
		if !l.Replicated {
			continue
		}
		l.Room = room(len(wanted))
		r := s.carried(l.Stream)
		if r == nil {
			r = &replicated{sid: s.nextSID}
			s.nextSID++
			l.ReplyPrefix = s.inbox(strconv.Itoa(r.sid) + ".")
			r.bursts = newBursts(l, s, &s.a.stats)
			s.copied[r.sid] = r
			s.w.subscribe(r.sid, inPrefix+l.Stream+".>")
		}
		r.Room = l.Room
		if l.Consumer != "" && r.acks == 0 {
			// They are led here since the stream had one copy.
			r.acks = s.nextSID
			s.nextSID++
			s.w.subscribe(r.acks, ackInPrefix+l.Stream+"."+l.Consumer+".>")
		}
	}
}

// carried is the replicated stream of this name; nil when it is not wanted.
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

// canSend reports whether there is a way back to the streams.
func (s *session) canSend() bool {
	if !s.wayBack {
		s.wayBack = s.a.opts.Maps == nil || s.a.opts.Maps(s.a.name, s.out()+">")
	}
	return s.wayBack
}

// pumpBursts is pump for replicated streams, and returns the earlier of next and when one
// of them has more to send.
func (s *session) pumpBursts(now, next time.Time) time.Time {
	for _, r := range s.copied {
		if !r.busy() {
			continue
		}
		if !s.canSend() {
			return earlier(next, now.Add(leaveEvery))
		}
		r.pump(now)
		if t := r.next(); !t.IsZero() {
			next = earlier(next, t)
		}
	}
	return next
}
