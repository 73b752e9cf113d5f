// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	// restoreTries is how often a stream is made from its copy before its state is
	// taken for a fault.
	restoreTries = 4
	// removal is how long the files of a small stream take to be removed, at most.
	removal = time.Second
	// ttlPatience is how long the copy and the stream may differ because messages
	// with a time to live run out on one side first.
	ttlPatience = 5 * time.Second
)

func newBarrier(subject string) *nats.Msg {
	msg := nats.NewMsg(subject)
	msg.Header.Set("Nats-Expected-Last-Sequence", "18446744073709551615")
	return msg
}

// target is the configuration that is asked for.
func (rec record) target() map[string]any { return bootstrap.Merged(rec.Config, rec.Set) }

// restore makes the stream from its copy, and finishes.
func (r *recreation) restore(ctx context.Context, rec record) error {
	for try := 1; ; try++ {
		err := r.restoreOnce(ctx, rec)
		if err == nil {
			return r.finish(ctx, rec)
		}
		if try == restoreTries {
			return err
		}
		if err := r.discard(ctx); err != nil {
			return err
		}
	}
}

// discard deletes a stream that was made from the copy and is not whole. It took
// no messages and delivered none. The server removes files in the background,
// and a stream that is made meanwhile can trip over them.
func (r *recreation) discard(ctx context.Context) error {
	s, err := r.c.lookup(ctx, r.account, r.stream)
	if err != nil || s == nil {
		return err
	}
	if _, ours := mark(s.Config, bootstrap.MetaRestored); !ours || !isParkedAt(s.Config, parkedSubject(r.stream)) {
		return nil
	}
	if _, err := r.c.deleteStream(ctx, r.account, r.stream); err != nil {
		return err
	}
	r.step("delete what is not whole")
	return pauseFor(ctx, removal)
}

func (r *recreation) restoreOnce(ctx context.Context, rec record) error {
	consumers, err := r.restored(ctx, rec)
	if err != nil {
		return err
	}
	begun, kept := false, uint64(0)
	err = r.c.transfer(ctx, r.account, bootstrap.CopyName(r.stream), false, r.bare(rec), func(e entry) ([]entry, error) {
		switch {
		case !begun:
			begun = true
			return rec.lead(e, consumers)
		case e.isEnd():
			return []entry{e}, nil
		case e.seq > rec.Last || rec.done(e):
			return nil, nil
		}
		kept++
		r.copying(kept, rec.Messages)
		return []entry{e}, nil
	})
	if err != nil {
		return err
	}
	r.step("make the stream from the copy")
	s, err := r.c.lookup(ctx, r.account, r.stream)
	if err != nil {
		return err
	}
	if s == nil || s.State.Messages != kept && rec.Config["allow_msg_ttl"] != true {
		return fmt.Errorf("not all of %d messages were stored", kept)
	}
	return nil
}

// bare is the target without what refuses or removes messages, and without
// subjects: nothing is to happen to the stream before it is whole.
func (r *recreation) bare(rec record) map[string]any {
	config := withMark(rec.target(), bootstrap.MetaRestored, "true")
	config["subjects"] = []string{parkedSubject(r.stream)}
	for _, k := range []string{
		"max_msgs", "max_age", "max_msgs_per_subject", "max_msg_size", "discard", "discard_new_per_subject",
		"subject_transform", "republish", "subject_delete_marker_ttl", "first_seq", "no_ack",
	} {
		delete(config, k)
	}
	if config["retention"] == "interest" {
		// What has no interest is removed when the consumers are there.
		config["retention"] = "limits"
	}
	if limited(config) {
		config["max_bytes"] = max(number(config["max_bytes"]), rec.Bytes)
	}
	return config
}

// lead is the entry that leads a backup, and the consumers after it.
func (rec record) lead(e entry, consumers []carried) ([]entry, error) {
	state, err := stateEntry(e)
	if err != nil {
		return nil, err
	}
	state["messages"], state["first_seq"], state["last_seq"] = rec.Messages, rec.first(), rec.Last
	state["consumer_count"] = len(consumers)
	delete(state, "deleted")
	if e, err = withState(e, state); err != nil {
		return nil, err
	}
	out := []entry{e}
	for _, o := range consumers {
		body, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		out = append(out, entry{name: "consumers/" + o.Name, time: e.time, body: body})
	}
	return out, nil
}

// first is the sequence that the stream starts with; empty, the one it goes on with.
func (rec record) first() uint64 {
	if rec.Messages == 0 {
		return rec.Last + 1
	}
	return rec.First
}

// restored are the consumers of the record as they are made: paused, at their
// positions.
func (r *recreation) restored(ctx context.Context, rec record) ([]carried, error) {
	out := make([]carried, 0, len(rec.Carried))
	leaves := rec.Config["retention"] == "workqueue" && rec.target()["retention"] != "workqueue"
	for _, o := range rec.Carried {
		set := rec.Consumers[o.Name]
		if o.Config["ack_policy"] != bootstrap.Merged(o.Config, set)["ack_policy"] {
			// What is under way means something else now; it is delivered again.
			o.State = position{Delivered: o.State.AckFloor, AckFloor: o.State.AckFloor}
		}
		o.Config = bootstrap.Merged(o.Config, set)
		o.Config["pause_until"] = pausedUntil
		if leaves {
			// All that a work queue stores is not acknowledged, though a floor jumps
			// over what used up max_deliver. Elsewhere it would be taken for done.
			below, err := r.waitsBelow(ctx, o)
			if err != nil {
				return nil, err
			}
			if below {
				o.State = position{}
			}
		}
		// The server takes no position before the first message, and drops it whole.
		o.State.AckFloor.Stream = max(o.State.AckFloor.Stream, rec.first()-1)
		o.State.Delivered.Stream = max(o.State.Delivered.Stream, rec.first()-1)
		out = append(out, o)
	}
	return out, nil
}

func (r *recreation) waitsBelow(ctx context.Context, o carried) (bool, error) {
	for _, filter := range filtersOf(o.Config) {
		var got struct {
			Message struct {
				Seq uint64 `json:"seq"`
			} `json:"message"`
		}
		req := map[string]any{"seq": 1, "next_by_subj": filter, "no_hdr": true}
		err := r.c.request(ctx, r.account, "STREAM.MSG.GET."+bootstrap.CopyName(r.stream), req, &got)
		if code(err) == codeNoMessage {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("find oldest message of consumer %q: %w", o.Name, err)
		}
		if got.Message.Seq <= o.State.AckFloor.Stream {
			return true, nil
		}
	}
	return false, nil
}

// done reports that a message has no place in a work queue: the consumer that it
// is for acknowledged it while the stream was no work queue.
func (rec record) done(e entry) bool {
	if rec.target()["retention"] != "workqueue" || rec.Config["retention"] == "workqueue" {
		return false
	}
	wanted := false
	for _, o := range rec.Carried {
		if !slices.ContainsFunc(filtersOf(o.Config), func(f string) bool { return matches(f, e.name) }) {
			continue
		}
		if o.State.needs(e.seq, o.Config["ack_policy"]) {
			return false
		}
		wanted = true
	}
	return wanted
}

// matches reports whether a subject passes a filter.
func matches(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		if token == ">" {
			return len(s) > i
		}
		if i >= len(s) || token != "*" && token != s[i] {
			return false
		}
	}
	return len(f) == len(s)
}

// finish opens the stream that was made from the copy, once it is whole.
func (r *recreation) finish(ctx context.Context, rec record) error {
	s, err := r.whole(ctx, rec)
	if err != nil {
		return err
	}
	if isParkedAt(s.Config, parkedSubject(r.stream)) {
		if err := r.c.reconfigure(ctx, r.account, withMark(rec.target(), bootstrap.MetaRestored, "true")); err != nil {
			return refuse(openHint(err), "take messages again: %w", err)
		}
		r.step("open the stream")
	}
	consumers, err := r.c.consumers(ctx, r.account, r.stream)
	if err != nil {
		return err
	}
	for _, o := range consumers {
		if o.Config["pause_until"] != pausedUntil {
			continue
		}
		if err := r.c.setPause(ctx, r.account, r.stream, o.Name, rec.Paused[o.Name]); err != nil {
			return fmt.Errorf("resume consumer %q: %w", o.Name, err)
		}
		r.step("resume consumer " + o.Name)
	}
	// A position is written some time after it changed.
	if err := pauseFor(ctx, settle); err != nil {
		return err
	}
	if err := r.deleteCopy(ctx); err != nil {
		return err
	}
	return r.unmark(ctx)
}

func openHint(err error) string {
	if hint := hintFor(code(err)); hint != "" {
		return hint + "; then run `holdfast apply` again, which goes on where this stopped"
	}
	return hintAgain
}

func isParkedAt(config map[string]any, subject string) bool {
	subjects, _ := config["subjects"].([]any)
	return len(subjects) == 1 && subjects[0] == subject
}
