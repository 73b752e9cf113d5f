// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	// rollBackTimeout bounds what is done to undo a recreation that failed.
	rollBackTimeout = time.Minute
	// settle is longer than the server takes to write a consumer's position.
	settle = 300 * time.Millisecond

	hintAgain = "nothing is lost: run `holdfast apply` again, which goes on where this stopped; until then publishers to the stream get no answer"
	hintSame  = "the stream is as it was; correct the cause and run `holdfast apply` again"
)

// recreation makes one stream anew from a copy. See docs/adr/0005.
type recreation struct {
	c               *Client
	account, stream string
	order           Order
}

func (r *recreation) step(what string) { r.order.step(what) }

func (r *recreation) copying(done, total uint64) { r.order.copied(r.account+"/"+r.stream, done, total) }

// recreateStream deletes a stream and makes it anew with fields set over its
// present configuration, nil to unset. Messages keep their sequences, times and
// headers, consumers their positions. After a stop at any point, calling it again
// finishes the work; when all is as set it does nothing.
func (c *Client) recreateStream(ctx context.Context, account, stream string, set map[string]any, order Order) error {
	r := &recreation{c: c, account: account, stream: stream, order: order}
	finished, err := r.resume(ctx)
	if err == nil && !sameJSON(finished, set) {
		err = r.begin(ctx, set)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("recreate stream %q in account %q: %w", stream, account, err)
	return diag.Fail(diag.CodeRecreate, err, recreateHint(err))
}

// recreateHint says what a person can do about a recreation that failed.
func recreateHint(err error) string {
	if hint := diag.Hint(err); hint != "" {
		return hint
	}
	return hintAgain
}

func refuse(hint, format string, args ...any) error {
	return diag.Fail(diag.CodeRecreate, fmt.Errorf(format, args...), hint)
}

// resume finishes a recreation that was cut short, and returns what that one set,
// or nil when there was none.
func (r *recreation) resume(ctx context.Context) (map[string]any, error) {
	s, err := r.c.lookup(ctx, r.account, r.stream)
	if err != nil {
		return nil, err
	}
	copied, rec, err := r.copied(ctx)
	if err != nil {
		return nil, err
	}
	if s == nil {
		if copied == nil {
			return nil, refuse("it is made by the next start or `holdfast apply`", "there is no such stream")
		}
		return rec.Set, r.restore(ctx, rec)
	}
	parked, isParked := mark(s.Config, bootstrap.MetaParked)
	_, isRestored := mark(s.Config, bootstrap.MetaRestored)
	switch {
	case isParked:
		var want intent
		if err := unzipText(parked, &want); err != nil {
			return nil, fmt.Errorf("read metadata %q: %w", bootstrap.MetaParked, err)
		}
		return want.Set, r.swap(ctx, want)
	case isRestored && copied != nil:
		return rec.Set, r.finish(ctx, rec)
	case isRestored:
		return nil, r.unmark(ctx)
	case copied == nil:
		return nil, nil
	case !rec.complete:
		// Of a recreation that was taken back.
		return nil, r.deleteCopy(ctx)
	}
	// An application was quicker and made the stream while it was gone.
	if err := r.removeEmpty(ctx, s); err != nil {
		return nil, err
	}
	return rec.Set, r.restore(ctx, rec)
}

// removeEmpty deletes a stream that took the name, unless it holds a message. It is
// parked before that is decided: nobody may get an acknowledgement in between.
func (r *recreation) removeEmpty(ctx context.Context, s *existing) error {
	parked := maps.Clone(s.Config)
	parked["subjects"] = []string{parkedSubject(r.stream)}
	for _, field := range parkedWithout {
		delete(parked, field)
	}
	if err := r.c.reconfigure(ctx, r.account, parked); err != nil {
		return fmt.Errorf("stop the stream that took the name: %w", err)
	}
	if err := insist(ctx, r.barrier); err != nil {
		return fmt.Errorf("stop the stream that took the name: %w", err)
	}
	now, err := r.present(ctx)
	if err != nil {
		return err
	}
	if now.State.Messages > 0 {
		fault := refuse(fmt.Sprintf("move what it holds to another stream, delete it with `holdfast nats stream rm %s`, and run `holdfast apply` again", r.stream),
			"somebody made a stream of this name while its messages are in %q, and it holds messages", bootstrap.CopyName(r.stream))
		return errors.Join(fault, r.c.reconfigure(ctx, r.account, s.Config))
	}
	if _, err := r.c.deleteStream(ctx, r.account, r.stream); err != nil {
		return err
	}
	r.step("delete the empty stream that took the name")
	return nil
}

// copied reads the copy, nil when there is none.
func (r *recreation) copied(ctx context.Context) (*existing, record, error) {
	name := bootstrap.CopyName(r.stream)
	t, err := r.c.lookup(ctx, r.account, name)
	if err != nil || t == nil {
		return nil, record{}, err
	}
	if of, ok := bootstrap.CopyOf(t.Config); !ok || of != r.stream {
		return nil, record{}, refuse(fmt.Sprintf("rename or delete %q", name), "the stream %q is in the way and no copy of Holdfast's", name)
	}
	rec, err := r.c.readRecord(ctx, r.account, r.stream, name, t.State.LastSeq)
	if errors.Is(err, errNoRecord) {
		rec, err = r.salvage(t)
	}
	return t, rec, err
}

// salvage makes the best of a copy that was cut short. It counts only when the
// original is gone, as a stream in memory is after a restart.
func (r *recreation) salvage(t *existing) (record, error) {
	rec := record{First: max(t.State.FirstSeq, 1), Last: t.State.LastSeq, Messages: t.State.Messages}
	text, _ := mark(t.Config, bootstrap.MetaParked)
	if err := unzipText(text, &rec.intent); err != nil {
		return rec, fmt.Errorf("read copy of stream %q: %w", r.stream, err)
	}
	return rec, nil
}

// begin starts a recreation of a stream that is as usual.
func (r *recreation) begin(ctx context.Context, set map[string]any) error {
	s, err := r.c.lookup(ctx, r.account, r.stream)
	if err != nil || s != nil && holds(s.Config, set) {
		return err
	}
	return r.beginWith(ctx, set, nil)
}

// beginWith also sets fields of consumers.
func (r *recreation) beginWith(ctx context.Context, set map[string]any, sets map[string]map[string]any) error {
	s, err := r.present(ctx)
	if err != nil {
		return err
	}
	consumers, err := r.c.consumers(ctx, r.account, r.stream)
	if err != nil {
		return err
	}
	want := intent{Config: s.Config, Set: set, Consumers: sets, Paused: map[string]string{}}
	for _, o := range consumers {
		if until, ok := o.Config["pause_until"].(string); ok {
			want.Paused[o.Name] = until
		}
	}
	for i, o := range consumers {
		consumers[i].Config = bootstrap.Merged(o.Config, sets[o.Name])
	}
	if _, open := bootstrap.Interrupted(s.Config); len(open) > 0 {
		return refuse("recreate the consumer first", "consumer %q is made anew right now", open[0])
	}
	if err := r.preflight(ctx, s, want, consumers); err != nil {
		return err
	}
	if err := r.park(ctx, want); err != nil {
		return fmt.Errorf("stop taking messages: %w", err)
	}
	return r.swap(ctx, want)
}

// swap replaces the parked stream.
func (r *recreation) swap(ctx context.Context, want intent) error {
	rec, err := r.copy(ctx, want)
	if err != nil {
		return r.rollBack(ctx, want, err)
	}
	// The point of no return. All there is stands in the copy.
	if _, err := r.c.deleteStream(ctx, r.account, r.stream); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	r.step("delete the stream")
	return r.restore(ctx, rec)
}

// rollBack makes the stream what it was. When the process is told to stop it
// leaves everything to the next call.
func (r *recreation) rollBack(ctx context.Context, want intent, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollBackTimeout)
	defer cancel()
	if err := r.undo(ctx, want); err != nil {
		return errors.Join(cause, fmt.Errorf("take back: %w", err))
	}
	if hint := diag.Hint(cause); hint != "" {
		return cause
	}
	hint := hintFor(code(cause))
	if hint == "" {
		hint = "correct the cause and run `holdfast apply` again"
	}
	return diag.Fail(diag.CodeRecreate, cause, "the stream is as it was; "+hint)
}

func (r *recreation) undo(ctx context.Context, want intent) error {
	if err := r.deleteCopy(ctx); err != nil {
		return err
	}
	consumers, err := r.c.consumers(ctx, r.account, r.stream)
	if err != nil {
		return err
	}
	for _, o := range consumers {
		if err := r.c.setPause(ctx, r.account, r.stream, o.Name, want.Paused[o.Name]); err != nil {
			return fmt.Errorf("resume consumer %q: %w", o.Name, err)
		}
	}
	if err := r.c.reconfigure(ctx, r.account, want.Config); err != nil {
		return fmt.Errorf("take messages again: %w", err)
	}
	r.step("take the recreation back")
	return nil
}

func (r *recreation) deleteCopy(ctx context.Context) error {
	deleted, err := r.c.deleteStream(ctx, r.account, bootstrap.CopyName(r.stream))
	if err != nil {
		return fmt.Errorf("delete the copy: %w", err)
	}
	if deleted {
		r.step("delete the copy")
	}
	return nil
}

func (r *recreation) unmark(ctx context.Context) error {
	s, err := r.present(ctx)
	if err != nil {
		return err
	}
	if err := r.c.reconfigure(ctx, r.account, withMark(s.Config, bootstrap.MetaRestored, "")); err != nil {
		return fmt.Errorf("remove metadata %q: %w", bootstrap.MetaRestored, err)
	}
	r.step("remove the mark")
	return nil
}

func sameJSON(a, b map[string]any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
