// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const hintConsumer = "nothing is lost: run `holdfast apply` again, which goes on where this stopped; until then the consumer may be paused or missing"

// moved is a consumer that is made anew; it stands in the stream's metadata.
type moved struct {
	Config map[string]any `json:"config"`
	Set    map[string]any `json:"set"`
	// From is the first sequence that is not acknowledged. Nothing is deleted
	// before it is known.
	From uint64 `json:"from,omitempty"`
}

// recreateConsumer deletes a consumer and makes it anew with fields set over its
// present configuration, nil to unset. It goes on at its acknowledgement floor:
// what was delivered and not acknowledged is delivered again. After a stop at any
// point, calling it again finishes the work.
func (c *Client) recreateConsumer(ctx context.Context, account, stream, consumer string, set map[string]any, order Order) error {
	r := &recreation{c: c, account: account, stream: stream, order: order}
	_, err := r.resume(ctx)
	if err == nil {
		err = r.moveConsumer(ctx, consumer, set)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("recreate consumer %q of stream %q in account %q: %w", consumer, stream, account, err)
	if diag.Hint(err) != "" {
		return err
	}
	return diag.Fail(diag.CodeRecreate, err, hintConsumer)
}

func (r *recreation) moveConsumer(ctx context.Context, name string, set map[string]any) error {
	s, err := r.present(ctx)
	if err != nil {
		return err
	}
	have, err := r.consumer(ctx, name)
	if err != nil {
		return err
	}
	var m moved
	if text, ok := mark(s.Config, bootstrap.MetaConsumer+name); ok {
		if err := unzipText(text, &m); err != nil {
			return fmt.Errorf("read metadata %q: %w", bootstrap.MetaConsumer+name, err)
		}
		return r.continueConsumer(ctx, name, m)
	}
	if have == nil {
		return refuse("it is made by the next start or `holdfast apply`", "there is no such consumer")
	}
	if holds(have.Config, set) {
		return nil
	}
	m = moved{Config: have.Config, Set: set}
	if !resettable(bootstrap.Merged(have.Config, set)) {
		// The server sets no position then, but restores one: with the stream.
		return r.beginWith(ctx, nil, map[string]map[string]any{name: set})
	}
	if err := r.checkConsumer(ctx, s, *have, set); err != nil {
		return err
	}
	if err := r.note(ctx, name, m); err != nil {
		return err
	}
	return r.continueConsumer(ctx, name, m)
}

// resettable is the server's rule for CONSUMER.RESET.
func resettable(config map[string]any) bool {
	switch config["deliver_policy"] {
	case nil, "all", "by_start_sequence", "by_start_time":
		return true
	}
	return false
}

// consumer returns nil when there is none.
func (r *recreation) consumer(ctx context.Context, name string) (*listed, error) {
	consumers, err := r.c.consumers(ctx, r.account, r.stream)
	if err != nil {
		return nil, err
	}
	for _, o := range consumers {
		if o.Name == name {
			return &o, nil
		}
	}
	return nil, nil
}

// checkConsumer finds what would fail half way.
func (r *recreation) checkConsumer(ctx context.Context, s *existing, have listed, set map[string]any) error {
	if s.Config["sealed"] == true {
		return refuse("make a new stream, and copy the messages with `sources`", "the stream is sealed")
	}
	target := bootstrap.Merged(have.Config, set)
	from, at, err := r.waiting(ctx, have)
	if err != nil {
		return err
	}
	start, err := time.Parse(time.RFC3339Nano, fmt.Sprint(target["opt_start_time"]))
	if number(target["opt_start_seq"]) > int64(from) || err == nil && !at.IsZero() && at.Before(start) {
		return refuse(fmt.Sprintf("start at sequence %d or before, or remove deliver_policy from the file", from),
			"it has not acknowledged message %d, and the new start would skip it", from)
	}
	other := have
	other.Config = target
	// The probe has no byte limit of its own to reserve.
	if err := r.probe(ctx, &existing{Config: s.Config}, intent{Config: s.Config}, []listed{other}); err != nil {
		hint := hintFor(code(err))
		if hint == "" {
			hint = "the server does not take the new configuration; the sentence before the code says why"
		}
		return diag.Fail(diag.CodeRecreate, fmt.Errorf("try the new configuration: %w", err), hint+"; the consumer is as it was")
	}
	return nil
}

// waiting returns the first message that a consumer has not acknowledged, and
// its time, or where the next will be.
func (r *recreation) waiting(ctx context.Context, o listed) (seq uint64, at time.Time, err error) {
	s, err := r.present(ctx)
	if err != nil {
		return 0, at, err
	}
	seq = max(s.State.LastSeq, o.State.AckFloor.Stream) + 1
	for _, filter := range filtersOf(o.Config) {
		var got struct {
			Message struct {
				Seq  uint64    `json:"seq"`
				Time time.Time `json:"time"`
			} `json:"message"`
		}
		req := map[string]any{"seq": o.State.AckFloor.Stream + 1, "next_by_subj": filter, "no_hdr": true}
		err := r.c.request(ctx, r.account, "STREAM.MSG.GET."+r.stream, req, &got)
		if code(err) == codeNoMessage {
			continue
		}
		if err != nil {
			return 0, at, fmt.Errorf("find oldest message: %w", err)
		}
		if got.Message.Seq < seq {
			seq, at = got.Message.Seq, got.Message.Time
		}
	}
	return seq, at, nil
}

// note writes to the stream's metadata where the work stands.
func (r *recreation) note(ctx context.Context, name string, m moved) error {
	s, err := r.present(ctx)
	if err != nil {
		return err
	}
	text := ""
	if m.Config != nil {
		if text, err = zipText(m); err != nil {
			return err
		}
	}
	if err := r.c.reconfigure(ctx, r.account, withMark(s.Config, bootstrap.MetaConsumer+name, text)); err != nil {
		return fmt.Errorf("write the stream's metadata: %w", err)
	}
	r.step("note consumer " + name)
	return nil
}

// continueConsumer does what is left to do.
func (r *recreation) continueConsumer(ctx context.Context, name string, m moved) error {
	have, err := r.consumer(ctx, name)
	if err != nil {
		return err
	}
	if have != nil {
		_, made := mark(have.Config, bootstrap.MetaRestored)
		switch {
		case made:
			return r.placeConsumer(ctx, name, m)
		case m.From > 0 && holds(have.Config, m.Set):
			return r.releaseConsumer(ctx, name, m)
		}
		if m, err = r.leaveConsumer(ctx, *have, m); err != nil {
			return err
		}
	}
	m.From = max(m.From, 1)
	config := withMark(bootstrap.Merged(m.Config, m.Set), bootstrap.MetaRestored, "true")
	config["pause_until"] = pausedUntil
	if err := r.c.createConsumer(ctx, r.account, r.stream, name, config); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	r.step("make consumer " + name)
	return r.placeConsumer(ctx, name, m)
}

// leaveConsumer deletes the consumer once its position is written down.
func (r *recreation) leaveConsumer(ctx context.Context, have listed, m moved) (moved, error) {
	name := have.Name
	if err := r.c.setPause(ctx, r.account, r.stream, name, pausedUntil); err != nil {
		return m, fmt.Errorf("pause: %w", err)
	}
	r.step("pause consumer " + name)
	if err := r.drain(ctx); err != nil {
		return m, err
	}
	now, err := r.consumer(ctx, name)
	if err != nil {
		return m, err
	}
	if now == nil {
		return m, errors.New("somebody deleted it")
	}
	if m.From, _, err = r.waiting(ctx, *now); err != nil {
		return m, err
	}
	if err := r.note(ctx, name, m); err != nil {
		return m, err
	}
	s, err := r.present(ctx)
	if err != nil {
		return m, err
	}
	if s.Config["retention"] == "interest" {
		// What only this consumer needs would go with it.
		guard := map[string]any{
			"durable_name": bootstrap.CopyName(name), "name": bootstrap.CopyName(name), "ack_policy": "explicit",
			"deliver_policy": "by_start_sequence", "opt_start_seq": m.From, "pause_until": pausedUntil,
		}
		for _, k := range []string{"filter_subject", "filter_subjects"} {
			if v := m.Config[k]; v != nil {
				guard[k] = v
			}
		}
		if err := r.c.createConsumer(ctx, r.account, r.stream, bootstrap.CopyName(name), guard); err != nil {
			return m, fmt.Errorf("hold its messages: %w", err)
		}
		r.step("guard the messages of consumer " + name)
	}
	if err := r.deleteConsumer(ctx, name); err != nil {
		return m, fmt.Errorf("delete: %w", err)
	}
	r.step("delete consumer " + name)
	return m, nil
}

// placeConsumer sets the position of the new consumer, which is paused.
func (r *recreation) placeConsumer(ctx context.Context, name string, m moved) error {
	err := insist(ctx, func(ctx context.Context) error {
		req := map[string]any{"seq": m.From}
		return r.c.request(ctx, r.account, "CONSUMER.RESET."+r.stream+"."+name, req, &struct{}{})
	})
	if err != nil {
		return fmt.Errorf("set the position: %w", err)
	}
	r.step("place consumer " + name)
	if err := r.c.createConsumer(ctx, r.account, r.stream, name, bootstrap.Merged(m.Config, m.Set)); err != nil {
		return fmt.Errorf("remove the mark: %w", err)
	}
	r.step("unmark consumer " + name)
	return r.releaseConsumer(ctx, name, m)
}

// releaseConsumer lets the new consumer deliver, and clears up.
func (r *recreation) releaseConsumer(ctx context.Context, name string, m moved) error {
	until, _ := bootstrap.Merged(m.Config, m.Set)["pause_until"].(string)
	if err := r.c.setPause(ctx, r.account, r.stream, name, until); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	r.step("resume consumer " + name)
	if err := r.deleteConsumer(ctx, bootstrap.CopyName(name)); err != nil {
		return fmt.Errorf("delete the guard: %w", err)
	}
	return r.note(ctx, name, moved{})
}
