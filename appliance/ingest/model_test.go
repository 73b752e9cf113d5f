// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	modelStream  = "S"
	modelReplies = "_hf.re.test.2."
	modelBatches = "_hf-test-"
	// modelInflight is how many batches the model stages at once.
	modelInflight = 4
)

// model is the server with one stream, as far as a lane can tell: it stores what is
// forwarded in the order in which it came, once it is told to, and holds its answers
// until they are asked for. It follows processJetStreamMsg and
// processJetStreamAtomicBatchMsg of nats-server v2.15.3.
type model struct {
	t testing.TB

	maxMsgs int // with discard new; 0 for any number
	maxSize int
	unknown map[string]bool // subjects that nobody listens to
	heard   map[string]bool // subjects that clients listen to
	// wasHeard are those that were heard at any time.
	wasHeard map[string]bool
	mute     bool // it stores and gives no answers, like a disk that fails at the end

	inbox   []forwarded
	stored  []forwarded // by sequence, from 1
	live    int
	ids     map[string]int
	staged  map[string][]forwarded
	stuck   map[string]bool // batches whose end reached no stream: it forgets them by itself
	replies []laneReply     // for the lane
	answers map[string][]laneReply
	lost    map[string]bool // publishers that got no answer, by reply
	alone   int
	sent    map[string]frame // by payload, to compare with
}

// answerable is a lane, or bursts.
type answerable interface {
	answered(token uint64, f frame, now time.Time)
}

// forwarded is a message from the lane.
type forwarded struct {
	subject, reply, header, payload string
	batch, seq, end                 string
}

// reply is an answer of the server.
type laneReply struct {
	to, header, payload string
	lost                bool
}

func newModel(t testing.TB) *model {
	return &model{
		t: t, maxSize: 1 << 20, unknown: map[string]bool{}, heard: map[string]bool{}, wasHeard: map[string]bool{}, ids: map[string]int{},
		staged: map[string][]forwarded{}, stuck: map[string]bool{}, answers: map[string][]laneReply{}, sent: map[string]frame{}, lost: map[string]bool{},
	}
}

// laneOf returns a lane that leads to the model.
func laneOf(m *model) *lane {
	return newLane(Lane{
		Stream: modelStream, MaxMsgSize: m.maxSize, MaxPayload: 1 << 20, Room: mostWaitingBytes, ReplyPrefix: modelReplies, BatchPrefix: modelBatches,
	}, m, &Stats{})
}

func field(header, name string) string {
	_, rest, ok := strings.Cut(header, "\r\n"+name+":")
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return strings.TrimSpace(value)
}

func (m *model) forward(subject, to, fields, header, payload []byte) {
	m.t.Helper()
	f := forwarded{subject: string(subject), reply: string(to), header: string(header), payload: string(payload)}
	if len(fields) > 0 {
		// The way in which the wire puts them together.
		rest := strings.TrimPrefix(f.header, headerStart)
		if f.header == "" {
			rest = "\r\n"
		}
		f.header = headerStart + string(fields) + rest
	}
	f.batch, f.seq, f.end = field(f.header, batchIDHeader), field(f.header, batchSeqHeader), field(f.header, batchEndHeader)
	ours := strings.HasPrefix(f.reply, modelReplies)
	if m.heard[f.subject] && f.end == "" && (ours || strings.HasPrefix(f.batch, modelBatches)) {
		m.t.Errorf("message %q on %s goes in another form than it came, and a client listens", f.payload, f.subject)
	}
	if !strings.HasPrefix(f.batch, modelBatches) {
		m.alone++
	}
	m.compare(f)
	if m.unknown[f.subject] {
		if f.end != "" {
			m.stuck[f.batch] = true
		}
		if ours {
			m.replies = append(m.replies, laneReply{to: f.reply, header: "NATS/1.0 503\r\n\r\n"})
		}
		return
	}
	m.inbox = append(m.inbox, f)
}

// compare has a message go as its publisher sent it, but for the fields of a batch.
func (m *model) compare(f forwarded) {
	m.t.Helper()
	s, ok := m.sent[f.payload]
	if !ok || f.end != "" && strings.HasPrefix(f.batch, modelBatches) {
		return
	}
	ours := strings.HasPrefix(f.reply, modelReplies) || strings.HasPrefix(f.batch, modelBatches)
	if f.subject != string(s.subject) || !ours && f.reply != string(s.reply) {
		m.t.Errorf("message %q: got subject %q and reply %q, want %q and %q", f.payload, f.subject, f.reply, s.subject, s.reply)
	}
	if got, want := bare(f.header), bare(string(s.header)); got != want {
		m.t.Errorf("message %q: got header %q, want %q", f.payload, got, want)
	}
}

// bare is a header without the fields of a batch of ingest.
func bare(header string) string {
	if !strings.Contains(header, batchPrefix) {
		return header
	}
	return string(withoutBatch([]byte(header)))
}

func (m *model) answer(to, header, payload []byte) {
	m.answers[string(to)] = append(m.answers[string(to)], laneReply{to: string(to), header: string(header), payload: string(payload)})
}

func (m *model) interest(subject []byte) bool { return !m.unknown[string(subject)] }

func (m *model) unheard(subject []byte, _ time.Time) bool { return !m.heard[string(subject)] }

// process works off the first n messages that were forwarded.
func (m *model) process(n int) {
	for range min(n, len(m.inbox)) {
		f := m.inbox[0]
		if m.inbox = m.inbox[1:]; f.batch == "" {
			m.single(f)
		} else {
			m.part(f)
		}
	}
}

// respond sends an answer the way that its subject says.
func (m *model) respond(to, rest string) {
	r := laneReply{to: to, payload: `{"stream":"` + modelStream + `",` + rest + `}`, lost: m.mute}
	if strings.HasPrefix(rest, `"error"`) {
		r.payload = `{` + strings.TrimSuffix(rest, `,"seq":0`) + `,"stream":"` + modelStream + `","seq":0}`
	}
	switch {
	case to == "":
	case strings.HasPrefix(to, modelReplies):
		m.replies = append(m.replies, r)
	case m.mute:
		m.lost[to] = true
	default:
		m.answers[to] = append(m.answers[to], r)
	}
}

func refusal(code int) string { return fmt.Sprintf(`"error":{"code":400,"err_code":%d},"seq":0`, code) }

func (m *model) store(f forwarded) int {
	m.stored = append(m.stored, f)
	m.live++
	if id := field(f.header, msgIDHeader); id != "" {
		m.ids[id] = len(m.stored)
	}
	return len(m.stored)
}

func (m *model) single(f forwarded) {
	id := field(f.header, msgIDHeader)
	switch seq := m.ids[id]; {
	case len(f.header)+len(f.payload) > m.maxSize:
		m.respond(f.reply, refusal(10054))
	case id != "" && seq > 0:
		m.respond(f.reply, fmt.Sprintf(`"seq":%d,"duplicate": true`, seq))
	case m.maxMsgs > 0 && m.live >= m.maxMsgs:
		m.respond(f.reply, refusal(10077))
	default:
		m.respond(f.reply, fmt.Sprintf(`"seq":%d`, m.store(f)))
	}
}

// part takes in a message of a batch.
func (m *model) part(f forwarded) {
	if len(f.header)+len(f.payload) > m.maxSize {
		m.respond(f.reply, refusal(10054))
		return
	}
	seq, err := strconv.Atoi(f.seq)
	if err != nil {
		m.respond(f.reply, refusal(10175))
		return
	}
	have, open := m.staged[f.batch]
	switch {
	case !open && seq != 1:
		m.respond(f.reply, refusal(10176))
		return
	case !open && len(m.staged) >= modelInflight:
		m.respond(f.reply, refusal(10210))
		return
	}
	size := seq
	if f.end == endOfBatch {
		size--
	}
	code := 0
	switch {
	case f.end != "" && f.end != endOfBatch && f.end != "1":
		code = 10200
	case seq != len(have)+1 || seq == 1 && f.end == endOfBatch:
		code = 10176
	case size > 1000:
		code = 10199
	}
	if code != 0 {
		delete(m.staged, f.batch)
		m.respond(f.reply, refusal(code))
		return
	}
	if f.end != endOfBatch {
		have = append(have, f)
	}
	if m.staged[f.batch] = have; f.end == "" {
		if f.reply != "" {
			m.answers[f.reply] = append(m.answers[f.reply], laneReply{to: f.reply})
		}
		return
	}
	delete(m.staged, f.batch)
	m.respond(f.reply, m.commit(f.batch, have))
}

// commit stores all messages of a batch or none, and returns the answer.
func (m *model) commit(id string, msgs []forwarded) string {
	inside := map[string]bool{}
	for i, f := range msgs {
		if id := field(f.header, msgIDHeader); id != "" {
			if inside[id] || m.ids[id] > 0 {
				return refusal(10201)
			}
			inside[id] = true
		}
		if m.maxMsgs > 0 && m.live+i+1 > m.maxMsgs {
			return refusal(10077)
		}
	}
	seq := 0
	for _, f := range msgs {
		seq = m.store(f)
	}
	return fmt.Sprintf(`"seq":%d,"batch":%q,"count":%d`, seq, id, len(msgs))
}

// deliver gives a lane, or bursts, the i-th answer that waits for it.
func (m *model) deliver(l answerable, i int, now time.Time) {
	r := m.replies[i]
	if m.replies = slices.Delete(m.replies, i, i+1); r.lost {
		return
	}
	token, err := strconv.ParseUint(strings.TrimPrefix(r.to, modelReplies), 10, 64)
	if err != nil {
		m.t.Fatalf("the lane asks for an answer on %q", r.to)
	}
	l.answered(token, frame{header: []byte(r.header), payload: []byte(r.payload)}, now)
}

// serve processes everything and gives the lane all answers.
func (m *model) serve(l answerable, now time.Time) {
	m.process(len(m.inbox))
	for len(m.replies) > 0 {
		m.deliver(l, 0, now)
	}
}

// storedPayloads returns what is in the stream, in order.
func (m *model) storedPayloads() []string {
	var out []string
	for _, f := range m.stored {
		out = append(out, f.payload)
	}
	return out
}

// message is a frame as it comes from a publisher.
func laneMessage(subject, to, header, payload string) frame {
	f := frame{subject: []byte(subject), reply: []byte(to), payload: []byte(payload)}
	if header != "" {
		f.header = []byte(headerStart + header + "\r\n\r\n")
	}
	return f
}

// bytesOf is what the queue of a lane takes.
func bytesOf(l *lane) (n int) {
	for i := range l.queue {
		n += l.queue[i].size()
	}
	return n
}

// request is what acknowledgements ask, which have a model of their own.
func (m *model) request(api string, _, _ []byte) { m.t.Errorf("a lane asked %s", api) }
