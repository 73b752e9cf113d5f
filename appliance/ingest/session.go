// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"
)

// session is what a connection carries. Only its loop touches the lanes.
type session struct {
	a    *account
	w    *wire
	info serverInfo
	id   string // in reply subjects: answers to an earlier connection are not for this one
	show string // in batch IDs, which others read: who knew id could answer for the stream

	inboxID string // in reply subjects that others may see

	lanes   map[int]*lane // by subscription
	acks    map[int]*acks // by subscription
	copied  map[int]*replicated
	byName  map[string]int
	nextSID int
	wayBack bool      // to the streams is open
	left    time.Time // when leave was called first

	audience audience
	deadline time.Time // of the present read
}

const (
	answersSID = 1
	// inboxSID is of answers to marks. Whoever listens to what publishers send may be let
	// answer to inboxes, and to nothing of ours.
	inboxSID = 2
)

func newSession(a *account, w *wire, info serverInfo) *session {
	word := func() string {
		var b [6]byte
		_, _ = rand.Read(b[:]) // never fails
		return hex.EncodeToString(b[:])
	}
	return &session{
		a: a, w: w, info: info, id: word(), show: word(), inboxID: word(),
		lanes: make(map[int]*lane), acks: make(map[int]*acks), copied: make(map[int]*replicated),
		byName: make(map[string]int), nextSID: inboxSID + 1,
		audience: audience{account: a.name, in: a.opts.Listening},
	}
}

// tickEvery is how often lanes look for answers that are overdue.
const tickEvery = 250 * time.Millisecond

// run carries until the connection or the account ends. It reads, decides and writes in
// one goroutine: each other one would have to be woken for each message. It can't come
// to a standstill, because the server never waits for this connection to read while it
// reads from it.
func (s *session) run() (err error) {
	defer func() { err = errors.Join(err, s.w.conn.Close()) }()
	// Whoever wants something of the session ends its read.
	done := make(chan struct{})
	defer close(done)
	wake := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-s.a.change:
			case <-s.a.stop:
			case <-done:
				return
			}
			select {
			case wake <- struct{}{}:
			default:
			}
			_ = s.w.conn.SetReadDeadline(time.Unix(1, 0)) // a closed one has ended already
			select {
			case <-s.a.stop:
				return
			default:
			}
		}
	}()

	s.w.subscribe(answersSID, s.answers(">"))
	s.w.subscribe(inboxSID, s.inbox(">"))
	s.take()
	var frames []frame
	for {
		if err := s.w.flush(); err != nil {
			return err
		}
		clear(frames)
		var pinged bool
		frames, pinged, err = s.w.read(frames[:0])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.deadline = time.Time{} // whoever ended the read has set another one
		} else if err != nil {
			return err
		}
		if pinged {
			s.w.pong()
		}
		now := time.Now()
		for _, f := range frames {
			s.dispatch(f, now)
		}
		s.pump(now)
		select {
		case <-s.a.stop:
			if s.leave(now) {
				continue
			}
			for _, a := range s.acks {
				a.releaseAll()
			}
			return s.w.flush()
		case <-wake:
			if s.left.IsZero() {
				s.take()
			}
		default:
		}
	}
}

// pump has all lanes send what they can, and sees to it that the next read ends when one
// of them has more to send.
func (s *session) pump(now time.Time) {
	next := now.Add(tickEvery)
	if !s.left.IsZero() {
		next = now.Add(leaveEvery)
	}
	for sid, l := range s.lanes {
		if !l.busy() {
			// What the server had sent before it knew is still to come.
			if !l.ended.IsZero() && now.Sub(l.ended) > patience {
				delete(s.lanes, sid)
			}
			continue
		}
		l.pump(now)
		if t := l.next(); !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	next = s.pumpBursts(now, next)
	for _, a := range s.acks {
		if !a.busy() {
			continue
		}
		a.pump(now)
		if t := a.due(); !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	// An earlier one is left: to set it costs more than to look once for nothing.
	if next.Before(s.deadline) || !now.Before(s.deadline) {
		s.deadline = next
		_ = s.w.conn.SetReadDeadline(next)
	}
}

const (
	// leavesFor is how long messages are taken that the server had sent before it knew that
	// nobody listens any more, and leaveEvery how often it is looked whether all is done.
	leavesFor  = 50 * time.Millisecond
	leaveEvery = 5 * time.Millisecond
)

// leave ends listening to publishers, and reports whether some of them are yet to be
// answered.
func (s *session) leave(now time.Time) bool {
	if s.left.IsZero() {
		s.left = now
		for name := range s.byName {
			s.end(name)
		}
		s.takeReplicated(nil)
	}
	waits := false
	for _, l := range s.lanes {
		l.release(now)
		waits = waits || l.batch != nil || l.probe != nil
	}
	for _, r := range s.copied {
		if s.canSend() {
			r.release()
		}
		waits = waits || r.owes()
	}
	passed := now.Sub(s.left)
	return len(s.lanes)+len(s.copied) > 0 && passed < leavesFor || waits && passed < mostHeldFor
}

func (s *session) dispatch(f frame, now time.Time) {
	switch f.sid {
	case answersSID:
		sid, token, ok := parseAnswer(f.subject[len(answerPrefix)+len(s.id)+1:])
		if l := s.lanes[sid]; ok && l != nil {
			l.answered(token, f, now)
		} else if a := s.acks[sid]; ok && a != nil {
			a.answered(token, f, now)
		}
		return
	case inboxSID:
		sid, token, ok := parseAnswer(f.subject[len(inboxes)+len(s.inboxID)+1:])
		if r := s.copied[sid]; ok && r != nil {
			r.answered(token, f, now)
		}
		return
	}
	if l := s.lanes[f.sid]; l != nil {
		f.subject = f.subject[len(inPrefix)+len(l.Stream)+1:]
		l.push(f, now)
	} else if r := s.copied[f.sid]; r != nil {
		f.subject = f.subject[len(inPrefix)+len(r.Stream)+1:]
		r.push(f, now)
	} else if a := s.acks[f.sid]; a != nil {
		f.subject = f.subject[len(ackInPrefix):]
		a.push(f, now)
	} else {
		s.passAck(f)
	} // or it ended a moment ago
}

// answers is the subject of answers: "<prefix>.<session>.<lane>.<token>".
func (s *session) answers(rest string) string { return answerPrefix + s.id + "." + rest }

// inbox is that of answers to marks.
func (s *session) inbox(rest string) string { return inboxes + s.inboxID + "." + rest }

// parseAnswer reads "<lane>.<token>".
func parseAnswer(rest []byte) (sid int, token uint64, ok bool) {
	lane, tok, ok := bytes.Cut(rest, []byte("."))
	if !ok {
		return 0, 0, false
	}
	sid, ok = atoi(lane)
	token, err := strconv.ParseUint(string(tok), 10, 64)
	return sid, token, ok && err == nil
}

// take makes the lanes those that are wanted.
func (s *session) take() {
	s.a.mu.Lock()
	wanted, taken := s.a.wanted, s.a.taken
	s.a.mu.Unlock()
	for name := range s.byName {
		if !slices.ContainsFunc(wanted, func(l Lane) bool { return l.Stream == name && !l.Replicated }) {
			s.end(name)
		}
	}
	s.takeReplicated(wanted)
	for _, l := range wanted {
		if l.Replicated {
			continue
		}
		l.MaxPayload = s.info.MaxPayload
		l.Room = room(len(wanted))
		l.BatchPrefix = batchPrefix + s.show + "-"
		if sid, ok := s.byName[l.Stream]; ok {
			l.ReplyPrefix = s.lanes[sid].ReplyPrefix
			s.lanes[sid].Lane = l
		} else {
			s.byName[l.Stream] = s.subscribe(inPrefix+l.Stream+".>", &l)
			s.lanes[s.byName[l.Stream]] = newLane(l, s, &s.a.stats)
		}
		s.takeAcks(l)
	}
	// The server has worked off what came before when it answers on this connection;
	// in process that is when the bytes are read.
	if err := s.w.flush(); err != nil {
		return // the loop meets it again
	}
	select {
	case <-taken:
	default:
		close(taken)
	}
}

// room is what may wait in one of so many lanes, in bytes.
func room(lanes int) int { return max(mostWaitingBytes/lanes, leastRoom) }

// subscribe leads a subject to a new part of the session and tells the lane where that
// is answered.
func (s *session) subscribe(subject string, l *Lane) int {
	sid := s.nextSID
	s.nextSID++
	l.ReplyPrefix = s.answers(strconv.Itoa(sid) + ".")
	s.w.subscribe(sid, subject)
	return sid
}

// takeAcks makes the acknowledgements that a lane carries those of its consumer.
func (s *session) takeAcks(l Lane) {
	for sid, a := range s.acks {
		if a.Stream != l.Stream {
			continue
		}
		if a.Consumer == l.Consumer {
			l.ReplyPrefix = a.ReplyPrefix
			a.Lane = l
			return
		}
		s.endAcks(sid)
	}
	if l.Consumer != "" {
		sid := s.subscribe(ackInPrefix+l.Stream+"."+l.Consumer+".>", &l)
		s.acks[sid] = newAcks(l, s, &s.a.stats)
	}
}

// end ends a lane. What waits in it goes as it came, and what is under way is answered.
func (s *session) end(name string) {
	sid := s.byName[name]
	s.w.unsubscribe(sid)
	now := time.Now()
	s.lanes[sid].release(now)
	s.lanes[sid].ended = now
	delete(s.byName, name)
	for sid, a := range s.acks {
		if a.Stream == name {
			s.endAcks(sid)
		}
	}
}

func (s *session) endAcks(sid int) {
	s.w.unsubscribe(sid)
	s.acks[sid].releaseAll()
	delete(s.acks, sid)
}

func (s *session) request(api string, reply, payload []byte) {
	s.w.publish(apiPrefix, []byte(api), reply, nil, nil, payload)
}

func (s *session) forward(subject, reply, fields, header, payload []byte) {
	s.w.publish(s.out(), subject, reply, fields, header, payload)
}

func (s *session) answer(reply, header, payload []byte) {
	s.w.answer(reply, header, payload)
}

func (s *session) interest(subject []byte) bool {
	return s.a.opts.Listening.Interest(s.a.name, string(subject))
}

func (s *session) unheard(subject []byte, now time.Time) bool {
	return s.audience.sure(now) && !s.audience.heard(subject)
}

func (s *session) out() string { return outPrefix + s.a.secret + "." }
