// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"fmt"
	"time"
)

const (
	// mostWaiting bounds what waits in a lane, and mostWaitingBytes what waits in all
	// lanes of an account; more is refused with the answer that the server gives when its
	// own queue is full. leastRoom is what each lane has of it anyway.
	mostWaiting      = 100_000
	mostWaitingBytes = 64 << 20
	leastRoom        = 4 << 20
)

// outlet is where a lane sends to.
type outlet interface {
	// forward publishes to the stream, with fields in front of the header's own.
	forward(subject, reply, fields, header, payload []byte)
	// answer publishes to a publisher.
	answer(reply, header, payload []byte)
	// request asks the JetStream API.
	request(api string, reply, payload []byte)
	// interest reports whether anybody listens to a subject.
	interest(subject []byte) bool
	// unheard reports whether surely nobody but the stream listens to a subject.
	unheard(subject []byte, now time.Time) bool
}

// waiting is a message on its way to the stream.
type waiting struct {
	frame
	traits
}

// inbound is what waits for a stream, in the order in which it came.
type inbound struct {
	Lane
	out   outlet
	stats *Stats

	queue []waiting
	bytes int
	came  uint64 // messages so far
}

// admit takes in a message. It reports false when there is no room for it, which its
// publisher is told.
func (in *inbound) admit(f frame) bool {
	if bytes.HasPrefix(f.reply, []byte(ownPrefix)) {
		f.reply = nil // the stream's answer to it would pass for one to somebody else
	}
	if len(in.queue) >= mostWaiting || in.bytes+f.size() > in.Room {
		in.stats.Refused.Add(1)
		if len(f.reply) > 0 {
			in.out.answer(f.reply, nil, in.tooMany())
		}
		return false
	}
	m := waiting{frame: f, traits: examine(f.header)}
	if m.copied {
		m.header = withoutBatch(f.header)
		m.traits = examine(m.header)
	}
	in.queue = append(in.queue, m)
	in.bytes += m.size()
	in.came++
	return true
}

// pass sends a message as it is: the stream answers its publisher.
func (in *inbound) pass(m *waiting) {
	in.stats.Alone.Add(1)
	in.passAs(m, m.reply)
}

// passAs sends a message with another reply subject than its own. It reports false when
// its publisher was answered instead.
func (in *inbound) passAs(m *waiting, reply []byte) bool {
	if m.ownBatch && !in.OwnBatches {
		// The stream accepts batches for our sake; the configuration does not.
		if len(m.reply) > 0 {
			in.out.answer(m.reply, nil, in.noBatches())
		}
		return false
	}
	if len(m.reply) > 0 && !in.out.interest(m.subject) {
		in.out.answer(m.reply, noResponders(m.subject), nil)
		return false
	}
	in.out.forward(m.subject, reply, nil, m.header, m.payload)
	return true
}

func (in *inbound) drop(n int) {
	for i := range n {
		in.bytes -= in.queue[i].size()
		in.queue[i] = waiting{}
	}
	if in.queue = in.queue[n:]; len(in.queue) == 0 {
		in.queue = nil
	}
}

func (in *inbound) answerOne(m waiting, f frame) {
	if bytes.HasPrefix(f.header, noRespondersStart) {
		in.out.answer(m.reply, noResponders(m.subject), nil)
		return
	}
	in.out.answer(m.reply, f.header, f.payload)
}

var noRespondersStart = []byte("NATS/1.0 503")

// noResponders, tooMany and noBatches are what the server itself says.
func noResponders(subject []byte) []byte {
	return fmt.Appendf(nil, "%s\r\nNats-Subject: %s\r\n\r\n", noRespondersStart, subject)
}

func (in *inbound) tooMany() []byte {
	return fmt.Appendf(nil, `{"error":{"code":429,"err_code":10167,"description":"too many requests"},"stream":%q,"seq":0}`, in.Stream)
}

func (in *inbound) noBatches() []byte {
	return fmt.Appendf(nil, `{"error":{"code":400,"err_code":10174,"description":"atomic publish is disabled"},"stream":%q,"seq":0}`, in.Stream)
}
