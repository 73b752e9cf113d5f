// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// lagPause is how long a replica that is behind gets before it is asked again.
const lagPause = 20 * time.Millisecond

var errBehind = errors.New("the replica that answers is behind")

// History returns the revisions that are remembered, none where nothing was ever
// recorded. It makes nothing. The engine has to be ready: a server that recovers
// its streams does not know all of them yet.
func (r Revisions) History(ctx context.Context) (bootstrap.History, error) {
	h, err := r.history(ctx)
	if err != nil {
		return nil, diag.Fail(diag.CodeObserve, fmt.Errorf("read revisions: %w", err), observeHint(err))
	}
	return h, nil
}

func (r Revisions) history(ctx context.Context) (bootstrap.History, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	last, _, err := r.last(ctx, subjectAll)
	if err != nil || last == 0 {
		return nil, err
	}
	for {
		var b revisionBook
		seen, err := r.read(ctx, b.add)
		switch {
		case err == nil && seen >= last:
			return b.history(), nil
		case err == nil:
			err = errBehind // any replica may have answered
		case !errors.Is(err, errNoJetStream): // a replica that is just coming up
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, err
		}
		catchUp(ctx)
	}
}

// catchUp gives a cluster time to catch up.
func catchUp(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(lagPause):
	}
}

// revisionBook makes a history of messages.
type revisionBook struct {
	begun bootstrap.History
	done  map[uint64]revisionEnd
	ends  map[uint64]uint64 // where those stand
	sets  map[uint64]*objectSet
}

func (b *revisionBook) add(m revisionMessage) error {
	switch {
	case m.subject == subjectBegun:
		rev, err := decodeBegun(m.seq, m.data)
		b.begun = append(b.begun, rev)
		return err
	case strings.HasPrefix(m.subject, subjectDone):
		var d revisionEnd
		if err := json.Unmarshal(m.data, &d); err != nil {
			return fmt.Errorf("decode the end in message %d: %w", m.seq, err)
		}
		if b.done == nil {
			b.done, b.ends = make(map[uint64]revisionEnd), make(map[uint64]uint64)
		}
		b.done[revisionOf(m.subject)], b.ends[revisionOf(m.subject)] = d, m.seq // the last one counts
	case strings.HasPrefix(m.subject, subjectObjects):
		id := revisionOf(m.subject)
		if b.sets == nil {
			b.sets = make(map[uint64]*objectSet)
		}
		if b.sets[id] == nil {
			b.sets[id] = &objectSet{}
		}
		b.sets[id].add(m)
	}
	return nil
}

func (b *revisionBook) history() bootstrap.History {
	for i := range b.begun {
		rev := &b.begun[i]
		if d, ok := b.done[rev.ID]; ok {
			rev.Done, rev.Summary, rev.Partial, rev.Unchanged, rev.End = true, d.Summary, d.Partial, d.Unchanged, b.ends[rev.ID]
		}
		if s := b.sets[rev.ID]; s != nil {
			rev.Objects = s.objects()
		}
	}
	// Objects of what came before the latest finished revision are forgotten when that
	// is finished; a replica may not have heard of it yet.
	for i, finished := len(b.begun)-1, false; i >= 0; i-- {
		if finished {
			b.begun[i].Objects = nil
		}
		finished = finished || b.begun[i].Done
	}
	return b.begun
}

func decodeBegun(id uint64, data []byte) (bootstrap.Revision, error) {
	var rev bootstrap.Revision
	if err := json.Unmarshal(data, &rev); err != nil {
		return rev, fmt.Errorf("decode revision %d: %w", id, err)
	}
	rev.ID = id
	return rev, nil
}

// revisionMessage is a message of the stream.
type revisionMessage struct {
	seq     uint64
	subject string
	header  nats.Header
	data    []byte
}

// read calls each with every message, oldest first, and returns the sequence of
// the last.
func (r Revisions) read(ctx context.Context, each func(revisionMessage) error) (last uint64, err error) {
	for left := 1; left > 0; {
		if last, left, err = r.readBatch(ctx, last, each); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// readBatch reads as much behind a sequence as the server sends for one request.
// It returns the last sequence it read and how many messages are left.
func (r Revisions) readBatch(ctx context.Context, after uint64, each func(revisionMessage) error) (last uint64, left int, err error) {
	nc, err := r.client.conn(r.account)
	if err != nil {
		return 0, 0, err
	}
	// The server stops after the message that reaches max_bytes, and cuts a
	// connection with more than max_pending to come, which may be as little as
	// max_payload. A batch and the end of the one before it have to fit in there: so
	// the parts of objects are small too.
	req, err := json.Marshal(map[string]any{
		"seq": after + 1, "next_by_subj": subjectAll, "batch": maxRevisionMessages, "max_bytes": nc.MaxPayload() / 8,
	})
	if err != nil {
		return 0, 0, fmt.Errorf("encode request: %w", err)
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only with the connection
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+revisionStream, inbox, req); err != nil {
		return 0, 0, err
	}
	for last = after; ; {
		msg, err := sub.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) {
			return 0, 0, errNoJetStream
		}
		if err != nil {
			return 0, 0, err
		}
		switch status := msg.Header.Get("Status"); status {
		case "":
		case "204": // the end of the batch
			left, err := strconv.Atoi(msg.Header.Get("Nats-Num-Pending"))
			return last, left, err
		case "404": // nothing is left
			return last, 0, nil
		default:
			return 0, 0, fmt.Errorf("got status %s %s", status, msg.Header.Get("Description"))
		}
		if last, err = strconv.ParseUint(msg.Header.Get(nats.JSSequence), 10, 64); err != nil {
			return 0, 0, fmt.Errorf("decode sequence: %w", err)
		}
		if err := each(revisionMessage{seq: last, subject: msg.Header.Get(nats.JSSubject), header: msg.Header, data: msg.Data}); err != nil {
			return 0, 0, err
		}
	}
}

// revisionOf is the last token of a subject, 0 where that is no number.
func revisionOf(subject string) uint64 {
	id, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return id
}
