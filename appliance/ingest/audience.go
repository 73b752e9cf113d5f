// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"strings"
	"time"
)

// Listener is a subscription in an account; Client is false for those of streams.
type Listener struct {
	Subject string
	Client  bool
}

// Listening tells who listens in an account. Group commit hands messages over in
// another form than their publishers gave them, so nobody else may listen.
type Listening interface {
	// Interest reports whether anybody listens to a subject.
	Interest(account, subject string) bool
	// Listening returns a number that changes with every subscription that begins or ends.
	Listening(account string) (uint64, error)
	// Listeners returns all subscriptions.
	Listeners(account string) ([]Listener, error)
}

// shareOfLooking bounds the time that is spent on reading subscriptions: one part in
// so many. In an account with many of them that come and go all the time, messages go
// alone instead.
const shareOfLooking = 5

// audience knows who listens to the subjects of lanes. What it knows is as new as the
// latest message: who subscribes before a message is published hears it as it is.
type audience struct {
	account string
	in      Listening

	seen   uint64 // what Listening said when listeners was read
	known  bool   // listeners is that of seen
	next   time.Time
	looked time.Time // when sure was answered last
	answer bool

	foreign []string // what clients listen to, without inboxes
}

// sure brings the audience up to date, once for a time now, and reports whether that
// was possible.
func (a *audience) sure(now time.Time) bool {
	if a.looked.Equal(now) {
		return a.answer
	}
	a.looked, a.answer = now, a.look(now)
	return a.answer
}

func (a *audience) look(now time.Time) bool {
	seen, err := a.in.Listening(a.account)
	if err != nil {
		return false
	}
	if a.known && seen == a.seen {
		return true
	}
	if now.Before(a.next) {
		a.known = false
		return false
	}
	begun := time.Now()
	list, err := a.in.Listeners(a.account)
	a.next = now.Add(shareOfLooking * time.Since(begun))
	if a.known = err == nil; !a.known {
		return false
	}
	a.seen = seen
	a.foreign = a.foreign[:0]
	for _, l := range list {
		if l.Client && !isInbox(l.Subject) {
			a.foreign = append(a.foreign, l.Subject)
		}
	}
	return true
}

// isInbox reports whether a subject can't be one that a stream keeps, so that the many
// subscriptions for answers need not be compared with every message. A stream that
// keeps inboxes has no lane.
func isInbox(subject string) bool {
	return strings.HasPrefix(subject, inboxes) || strings.HasPrefix(subject, privateInboxes) || strings.HasPrefix(subject, ownPrefix)
}

const (
	inboxes        = "_INBOX."
	privateInboxes = "_inbox."
)

// heard reports whether a client listens to a subject. To be asked when sure.
func (a *audience) heard(subject []byte) bool {
	for _, pattern := range a.foreign {
		if matches(pattern, subject) {
			return true
		}
	}
	return false
}

// matches reports whether a pattern covers a subject.
func matches(pattern string, subject []byte) bool {
	for {
		p, restP, moreP := strings.Cut(pattern, ".")
		if p == ">" && len(subject) > 0 {
			return true
		}
		s, restS, moreS := bytes.Cut(subject, []byte("."))
		if p != "*" && p != string(s) {
			return false
		}
		if moreP != moreS {
			return false
		}
		if !moreP {
			return true
		}
		pattern, subject = restP, restS
	}
}
