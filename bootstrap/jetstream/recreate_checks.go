// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	// perMessage is more than the stores' sizes of one message differ by.
	perMessage = 24
	spareBytes = 1 << 20
)

// number reads a JSON number; anything else is 0.
func number(v any) int64 {
	n, ok := v.(json.Number)
	if !ok {
		return 0
	}
	i, err := n.Int64()
	if err != nil {
		return 0
	}
	return i
}

func limited(config map[string]any) bool { return number(config["max_bytes"]) > 0 }

// spaceFor is what a stream of this state takes in the other kind of storage too.
func spaceFor(s bootstrap.StreamState) int64 {
	return int64(s.Bytes+perMessage*s.Messages) + spareBytes
}

// preflight finds what would fail half way, while the stream still works.
func (r *recreation) preflight(ctx context.Context, s *existing, want intent, consumers []listed) error {
	target := bootstrap.Merged(want.Config, want.Set)
	if err := suitable(want.Config, target); err != nil {
		return err
	}
	if err := r.space(ctx, s, target); err != nil {
		return err
	}
	if target["retention"] == "interest" && want.Config["retention"] == "workqueue" {
		if err := r.wanted(ctx, consumers); err != nil {
			return err
		}
	}
	if err := r.probe(ctx, s, want, consumers); err != nil {
		hint := hintFor(code(err))
		if hint == "" {
			hint = "the server does not take the new configuration; the sentence before the code says why"
		}
		return diag.Fail(diag.CodeRecreate, fmt.Errorf("try the new configuration: %w", err), hint+"; the stream is as it was")
	}
	return nil
}

// suitable refuses the kinds of streams that a copy can't stand for.
func suitable(have, want map[string]any) error {
	for _, config := range []map[string]any{have, want} {
		switch {
		case config["sealed"] == true:
			return refuse("make a new stream, and copy the messages with `sources`", "the stream is sealed")
		case config["mirror"] != nil:
			return refuse("a mirror holds nothing of its own: delete it, and it is made and filled anew", "the stream is a mirror")
		case !empty(config["sources"]):
			return refuse("declare a stream of another name", "the stream has sources, whose positions can't be carried over: it would copy everything a second time")
		case config["allow_msg_schedules"] == true:
			return refuse("make a new stream and move the publishers", "the stream has scheduled messages, which would fire twice or not at all")
		}
	}
	if have["allow_msg_counter"] != want["allow_msg_counter"] {
		return refuse("make a new stream", "messages that are stored can't become counters, or stop being them")
	}
	return nil
}

// accountUse is what an account may store and does.
type accountUse struct {
	Memory          int64 `json:"memory"`
	Storage         int64 `json:"storage"`
	ReservedMemory  int64 `json:"reserved_memory"`
	ReservedStorage int64 `json:"reserved_storage"`
	Limits          struct {
		MaxMemory  int64 `json:"max_memory"`
		MaxStorage int64 `json:"max_storage"`
	} `json:"limits"`
	Tiers map[string]accountUse `json:"tiers"`
}

// space refuses when the account has no room for a second copy of the messages.
func (r *recreation) space(ctx context.Context, s *existing, target map[string]any) error {
	var use accountUse
	if err := r.c.request(ctx, r.account, "INFO", map[string]any{}, &use); err != nil {
		return fmt.Errorf("read the account's use: %w", err)
	}
	replicas := max(number(s.Config["num_replicas"]), 1)
	need := spaceFor(s.State)
	if tier, ok := use.Tiers[fmt.Sprintf("R%d", replicas)]; ok {
		use = tier
	} else {
		need *= replicas
	}
	check := func(kind string, used, limit int64) error {
		if limit < 0 || used+need <= limit {
			return nil
		}
		return refuse(fmt.Sprintf("raise limits.%s of the account by %d bytes until this is done, or lower what its streams hold; the stream is as it was", kind, used+need-limit),
			"no room for a copy: %d bytes of %s are needed, %d of %d are left", need, kind, max(limit-used, 0), limit)
	}
	if err := check("disk", max(use.Storage, use.ReservedStorage), use.Limits.MaxStorage); err != nil {
		return err
	}
	if target["storage"] == "memory" && s.Config["storage"] != "memory" {
		return check("memory", max(use.Memory, use.ReservedMemory), use.Limits.MaxMemory)
	}
	return nil
}

// wanted refuses when a message is for no consumer: retention interest would
// remove it, and nobody acknowledged it.
func (r *recreation) wanted(ctx context.Context, consumers []listed) error {
	var filters []string
	for _, o := range consumers {
		filters = append(filters, filtersOf(o.Config)...)
	}
	for offset := 0; ; {
		var s struct {
			Total int `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		req := map[string]any{"subjects_filter": ">", "offset": offset}
		if err := r.c.request(ctx, r.account, "STREAM.INFO."+r.stream, req, &s); err != nil {
			return fmt.Errorf("list subjects: %w", err)
		}
		for subject, n := range s.State.Subjects {
			if !slices.ContainsFunc(filters, func(f string) bool { return matches(f, subject) }) {
				return refuse("declare a consumer for it first, or delete the messages with `holdfast nats stream purge --subject`",
					"%d messages on %q are for no consumer, and retention interest would remove them", n, subject)
			}
		}
		if offset += len(s.State.Subjects); offset >= s.Total || len(s.State.Subjects) == 0 {
			return nil
		}
	}
}

// probe makes an empty stream of the new configuration with all consumers, the
// way it will be made, and deletes it. It has the name of the copy, so that one
// that is left is taken for a copy that was cut short.
func (r *recreation) probe(ctx context.Context, s *existing, want intent, consumers []listed) error {
	blob, err := zipText(want)
	if err != nil {
		return err
	}
	target := bootstrap.Merged(want.Config, want.Set)
	config := maps.Clone(target)
	config["name"], config["subjects"] = bootstrap.CopyName(r.stream), []string{copySubject(r.stream)}
	delete(config, "subject_transform")
	delete(config, "republish")
	config["max_bytes"] = r.probeBytes(s, target)
	config["metadata"] = map[string]any{bootstrap.MetaCopyOf: r.stream, bootstrap.MetaParked: blob}
	send, err := r.c.openRestore(ctx, r.account, config)
	if err != nil {
		return err
	}
	if err = errors.Join(sendConsumers(send, consumers), send(nil)); err == nil {
		r.step("try the new configuration")
	}
	return errors.Join(err, r.deleteCopy(context.WithoutCancel(ctx)))
}

// sendConsumers sends a backup of no messages.
func sendConsumers(send func([]byte) error, consumers []listed) error {
	w, err := newArchiveWriter(send)
	if err != nil {
		return err
	}
	now := time.Now().UnixNano()
	lead, err := withState(entry{name: "state.json", time: now},
		map[string]any{"messages": 0, "bytes": 0, "first_seq": 1, "last_seq": 0, "consumer_count": len(consumers)})
	if err != nil {
		return err
	}
	entries := []entry{lead}
	for _, o := range consumers {
		o.Config = maps.Clone(o.Config)
		o.Config["pause_until"] = pausedUntil
		if o.Config["deliver_subject"] != nil {
			o.Config["deliver_subject"] = "_holdfast.probe.deliver." + o.Name
		}
		body, err := json.Marshal(carried{Name: o.Name, Config: o.Config})
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: "consumers/" + o.Name, time: now, body: body})
	}
	for _, e := range append(entries, entry{}) {
		if err := w.write(e); err != nil {
			return err
		}
	}
	return w.close()
}

// probeBytes reserves what the new stream needs beyond what the old one has, and
// at least what the copy does.
func (r *recreation) probeBytes(s *existing, target map[string]any) int64 {
	more := spaceFor(s.State)
	if limited(target) && target["storage"] == s.Config["storage"] {
		return max(more, number(target["max_bytes"])-number(s.Config["max_bytes"]))
	}
	return max(more, number(target["max_bytes"]))
}

// verify compares the copy with the stream, before that is deleted.
func (r *recreation) verify(ctx context.Context, rec record) error {
	end := time.Now().Add(ttlPatience)
	for {
		s, err := r.c.lookup(ctx, r.account, r.stream)
		if err != nil {
			return err
		}
		t, read, err := r.copied(ctx)
		if err != nil {
			return err
		}
		if s == nil || t == nil || !read.complete {
			return fmt.Errorf("the stream or its copy is gone")
		}
		kept := t.State.Messages - (t.State.LastSeq - rec.Last)
		switch {
		case s.State.LastSeq == rec.Last && kept >= s.State.Messages && (kept == rec.Messages || rec.Config["allow_msg_ttl"] == true):
			return errors.Join(r.carries(ctx, rec), r.fits(t, rec))
		case rec.Config["allow_msg_ttl"] != true || time.Now().After(end):
			return fmt.Errorf("the copy has %d messages up to sequence %d, the stream %d up to %d", kept, rec.Last, s.State.Messages, s.State.LastSeq)
		}
		if err := pauseFor(ctx, drainStep); err != nil {
			return err
		}
	}
}

// fits refuses when the messages take more room in a file than max_bytes allows:
// the oldest would be removed.
func (r *recreation) fits(t *existing, rec record) error {
	target := rec.target()
	if limit := number(target["max_bytes"]); limit > 0 && target["storage"] != "memory" &&
		rec.Config["storage"] == "memory" && int64(t.State.Bytes) > limit {
		return refuse(fmt.Sprintf("set max_bytes of the stream to %d at least; the stream is as it was", t.State.Bytes),
			"a file takes more room: the messages need %d bytes there and max_bytes is %d", t.State.Bytes, limit)
	}
	return nil
}

// carries fails when a consumer is not in the record.
func (r *recreation) carries(ctx context.Context, rec record) error {
	consumers, err := r.c.consumers(ctx, r.account, r.stream)
	if err != nil {
		return err
	}
	for _, o := range consumers {
		if !slices.ContainsFunc(rec.Carried, func(c carried) bool { return c.Name == o.Name }) {
			return fmt.Errorf("the copy lacks consumer %q", o.Name)
		}
	}
	return nil
}
