// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	// pausedUntil stands for always: a recreation is finished by a person or the
	// next start, however long that takes.
	pausedUntil = "2999-01-01T00:00:00Z"
	// drainTimeout is how long deliveries under way may take to be acknowledged,
	// and drainStep how long nothing may happen before that is given up.
	drainTimeout = 5 * time.Second
	drainStep    = 200 * time.Millisecond
	// copyTries is how often the copy is made anew because workers acknowledged
	// something meanwhile. After that these are delivered once more.
	copyTries = 3
	// recordPart is the size of a message of the record; the account may allow less.
	recordPart = 256 << 10
)

// parkedWithout are fields that a parked stream is without: a transform of subjects
// that it does not have, and no_ack, with which nothing would answer the barrier.
var parkedWithout = []string{"subject_transform", "no_ack"}

// park stops the stream from taking messages: nobody gets an acknowledgement for
// one that would not be in the copy.
func (r *recreation) park(ctx context.Context, want intent) error {
	blob, err := zipText(want)
	if err != nil {
		return err
	}
	config := withMark(want.Config, bootstrap.MetaParked, blob)
	config["subjects"] = []string{parkedSubject(r.stream)}
	for _, field := range parkedWithout {
		delete(config, field)
	}
	if err := r.c.reconfigure(ctx, r.account, config); err != nil {
		return err
	}
	r.step("park the stream")
	return nil
}

// barrier returns when the stream has stored all that it was handed before: a
// message it has to refuse goes the same way as the others.
func (r *recreation) barrier(ctx context.Context) error {
	nc, err := r.c.conn(r.account)
	if err != nil {
		return err
	}
	msg := newBarrier(parkedSubject(r.stream))
	answer, err := nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return err
	}
	if err := decode(answer.Data, &struct{}{}); code(err) == 0 {
		return errors.Join(errors.New("the stream took a message it had to refuse"), err)
	}
	return nil
}

// copy makes the copy of the parked stream and returns its record.
func (r *recreation) copy(ctx context.Context, want intent) (record, error) {
	if err := insist(ctx, r.barrier); err != nil {
		return record{}, fmt.Errorf("stop taking messages: %w", err)
	}
	if err := r.pause(ctx); err != nil {
		return record{}, err
	}
	var rec record
	for range copyTries {
		before, err := r.positions(ctx)
		if err != nil {
			return rec, err
		}
		if rec, err = r.copyOnce(ctx, want); err != nil {
			return rec, err
		}
		after, err := r.positions(ctx)
		if err != nil {
			return rec, err
		}
		if before == after {
			break
		}
	}
	return rec, r.verify(ctx, rec)
}

func (r *recreation) pause(ctx context.Context) error {
	consumers, err := r.c.consumers(ctx, r.account, r.stream)
	if err != nil {
		return err
	}
	for _, o := range consumers {
		if o.Config["pause_until"] == pausedUntil {
			continue
		}
		if err := r.c.setPause(ctx, r.account, r.stream, o.Name, pausedUntil); err != nil {
			return fmt.Errorf("pause consumer %q: %w", o.Name, err)
		}
		r.step("pause consumer " + o.Name)
	}
	return r.drain(ctx)
}

// drain waits while workers acknowledge what was delivered to them.
func (r *recreation) drain(ctx context.Context) error {
	end, last, quiet := time.Now().Add(drainTimeout), -1, time.Now()
	for time.Now().Before(end) {
		consumers, err := r.c.consumers(ctx, r.account, r.stream)
		if err != nil {
			return err
		}
		waiting := 0
		for _, o := range consumers {
			waiting += o.State.NumAckPending
		}
		if waiting != last {
			last, quiet = waiting, time.Now()
		}
		if waiting == 0 || time.Since(quiet) > drainStep {
			return nil
		}
		if err := pauseFor(ctx, drainStep/10); err != nil {
			return err
		}
	}
	return nil
}

// positions is what changes when a worker acknowledges something.
func (r *recreation) positions(ctx context.Context) (string, error) {
	s, err := r.present(ctx)
	if err != nil {
		return "", err
	}
	consumers, err := r.c.consumers(ctx, r.account, r.stream)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprint(&b, s.State.LastSeq)
	for _, o := range consumers {
		fmt.Fprintf(&b, " %s %d %d %d", o.Name, o.State.AckFloor.Stream, o.State.Delivered.Stream, o.State.NumAckPending)
	}
	return b.String(), nil
}

func (r *recreation) copyOnce(ctx context.Context, want intent) (record, error) {
	rec := record{intent: want, complete: true}
	config, err := r.copyConfig(ctx, want)
	if err != nil {
		return rec, err
	}
	if err := r.deleteCopy(ctx); err != nil {
		return rec, err
	}
	partSize := recordPart
	nc, err := r.c.conn(r.account)
	if err != nil {
		return rec, err
	}
	if m := nc.MaxPayload(); m > 0 {
		partSize = min(partSize, int(m)/2)
	}
	err = r.c.transfer(ctx, r.account, r.stream, true, config, func(e entry) ([]entry, error) {
		if name, ok := consumerName(e); ok {
			return nil, rec.add(name, e.body)
		}
		switch {
		case rec.First == 0:
			return rec.start(e)
		case !e.isEnd():
			rec.Messages++
			r.copying(rec.Messages, rec.Stored)
			rec.Last = max(rec.Last, e.seq)
			return []entry{e}, nil
		}
		parts, err := rec.entries(r.stream, partSize, time.Now().UnixNano())
		return append(parts, e), err
	})
	if err != nil {
		return rec, err
	}
	r.step("write the copy")
	return rec, nil
}

// copyConfig is plain and keeps everything; only what makes messages vanish of
// their own accord does so in the copy too.
func (r *recreation) copyConfig(ctx context.Context, want intent) (map[string]any, error) {
	blob, err := zipText(want)
	if err != nil {
		return nil, err
	}
	config := map[string]any{
		"name": bootstrap.CopyName(r.stream), "subjects": []string{copySubject(r.stream)},
		"storage": "file", "retention": "limits",
		"metadata": map[string]any{bootstrap.MetaCopyOf: r.stream, bootstrap.MetaParked: blob},
	}
	for _, k := range []string{"num_replicas", "placement", "compression", "allow_msg_ttl"} {
		if v := want.Config[k]; v != nil {
			config[k] = v
		}
	}
	if limited(want.Config) {
		s, err := r.present(ctx)
		if err != nil {
			return nil, err
		}
		config["max_bytes"] = spaceFor(s.State)
	}
	return config, nil
}

// start takes the entry that leads a backup.
func (rec *record) start(e entry) ([]entry, error) {
	state, err := stateEntry(e)
	if err != nil {
		return nil, err
	}
	var s bootstrap.StreamState
	if err := unmarshal(e.body, &s); err != nil {
		return nil, err
	}
	rec.First, rec.Last, rec.Stored = max(s.FirstSeq, 1), s.LastSeq, s.Messages
	rec.Bytes = spaceFor(s)
	state["consumer_count"], state["first_seq"] = 0, rec.First
	e, err = withState(e, state)
	return []entry{e}, err
}

// add remembers a consumer of the backup. Those that mirrors and sources made
// for themselves they make again.
func (rec *record) add(name string, body []byte) error {
	o := carried{Name: name}
	if err := json.Unmarshal(body, &o); err != nil {
		return fmt.Errorf("read consumer %q: %w", name, err)
	}
	var config struct {
		Config map[string]any `json:"config"`
	}
	if err := unmarshal(body, &config); err != nil {
		return fmt.Errorf("read consumer %q: %w", name, err)
	}
	o.Name, o.Config = name, bootstrap.WithoutServers(config.Config)
	if o.Config["direct"] == true || o.Config["sourcing"] == true {
		return nil
	}
	rec.Carried = append(rec.Carried, o)
	return nil
}

const (
	insistTimeout = 30 * time.Second
	insistEach    = 3 * time.Second
)

// insist repeats a request that can be repeated while nobody answers it: in a
// cluster what was just changed takes a moment to be known to all.
func insist(ctx context.Context, request func(context.Context) error) error {
	for end := time.Now().Add(insistTimeout); ; {
		each, cancel := context.WithTimeout(ctx, insistEach)
		err := request(each)
		cancel()
		silent := errors.Is(err, nats.ErrNoResponders) || errors.Is(err, errNoJetStream) || errors.Is(err, context.DeadlineExceeded)
		if !silent || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		if err := pauseFor(ctx, drainStep); err != nil {
			return err
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
