// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Limits of nats-server (JSMaxDescriptionLen, JSMaxMetadataLen and the shortest times it takes).
const (
	maxDescription = 4 << 10
	maxMetadata    = 128 << 10
	shortestAge    = Duration(100 * time.Millisecond)
	shortestMarker = Duration(time.Second)
)

// stream is a declared stream and what counts where it says nothing.
type stream struct {
	object
	Stream
	name      string
	retention string // empty when it was refused
	discard   string
	storage   string
}

// streamsOf returns the streams of an account in the order of the files.
func (c *checker) streamsOf(at path, a Account) []stream {
	var out []stream
	for _, name := range keysOfMap(a.Streams) {
		s := stream{object: object{c, at}.in("streams", name), Stream: a.Streams[name].written(), name: name}
		s.retention = s.choice("retention", s.Retention, "limits")
		s.discard = s.choice("discard", s.Discard, "new")
		s.storage = s.choice("storage", s.Storage, "file")
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b stream) int { return c.before(c.cfg.KeyAt(a.at...), c.cfg.KeyAt(b.at...)) })
	return out
}

func (s stream) check() {
	s.limits()
	s.times()
	s.discarding()
	s.features()
	s.grouped()
	s.losing()
	s.subjects()
	s.transforms()
	for _, name := range keysOfMap(s.Consumers) {
		s.consumer(name).check()
	}
	if s.retention == "workqueue" {
		s.workQueue()
	}
}

// copied reports whether messages come from other streams, too.
func (s stream) copied() bool { return s.isSet("mirror") || s.isSet("sources") }

func (s stream) limits() {
	s.errors(
		rule{s.MaxBytes == nil && !s.isSet("max_bytes"), diag.CodeNoByteLimit, "max_bytes", "the stream has no byte limit",
			"add max_bytes, such as max_bytes: 1GiB, or write max_bytes: unlimited if the stream may fill the disk"},
		rule{or(s.MaxMsgSize, 0) > math.MaxInt32, diag.CodeValue, "max_msg_size", "the server counts the bytes of a message up to 2GiB only", "write a size below 2GiB"},
		tooLong("description", s.Description), tooMuch(s.Metadata),
		s.c.beyondNodes(int(or(s.NumReplicas, 1))),
		rule{or(s.MaxConsumers, Unlimited) > 0 && len(s.Consumers) > int(or(s.MaxConsumers, 0)), diag.CodeConflict, "max_consumers",
			fmt.Sprintf("the stream declares %d consumers", len(s.Consumers)), "raise max_consumers, or remove consumers"},
		rule{s.Placement != nil && s.Placement.Preferred != nil, diag.CodeConflict, "placement", "preferred is for a change of leader only: the server refuses it here", "remove preferred"},
	)
	s.warnings(rule{or(s.MaxBytes, 0) == Unlimited, diag.CodeNoByteLimit, "max_bytes", "the stream may fill the disk, and then no stream of the node can be written",
		"write a size, such as 8GiB"})
}

// beyondNodes: more copies than there are nodes to keep them.
func (c *checker) beyondNodes(n int) rule {
	nodes := c.cfg.Nodes()
	have, most := "1 node", "1"
	if nodes > 1 {
		have, most = fmt.Sprintf("%d nodes", nodes), fmt.Sprintf("at most %d", nodes)
	}
	// Without peers there is another error.
	return rule{nodes > 0 && n > nodes, diag.CodeConflict, "num_replicas", fmt.Sprintf("%s can't keep %d copies", have, n), "write num_replicas: auto, or " + most}
}

func tooLong(key string, text *string) rule {
	return rule{len(or(text, "")) > maxDescription, diag.CodeValue, key, "longer than 4 KiB", "write less"}
}

func tooMuch(metadata map[string]string) rule {
	n := 0
	for k, v := range metadata {
		n += len(k) + len(v)
	}
	return rule{n > maxMetadata, diag.CodeValue, "metadata", "keys and values together are longer than 128 KiB", "write less"}
}

func (s stream) times() {
	age, window := or(s.MaxAge, 0), or(s.DuplicateWindow, 0)
	s.errors(
		tooShort("max_age", age, shortestAge), tooShort("duplicate_window", window, shortestAge),
		tooShort("subject_delete_marker_ttl", or(s.DeleteMarkerTTL, 0), shortestMarker),
		rule{age > 0 && window > age, diag.CodeWindow, "duplicate_window",
			fmt.Sprintf("%s is longer than %s, which is %s", window, s.c.ref(s.at.with("max_age")), age),
			fmt.Sprintf("write %s or less: what was removed can't be recognised again", age)},
		rule{s.DuplicateWindow != nil && window == 0 && !s.copied(), diag.CodeValue, "duplicate_window", "0s means the default of 2m to the server", "remove the line, or write 100ms or more"},
	)
}

func tooShort(key string, d, least Duration) rule {
	return rule{d > 0 && d < least, diag.CodeValue, key, fmt.Sprintf("%s is shorter than the %s that the server takes", d, least), fmt.Sprintf("write %s or more", least)}
}

// discarding: what the server refuses together with discard new, which is
// Holdfast's default, and what discard_new_per_subject needs.
func (s stream) discarding() {
	const fix = "write discard: old; the oldest messages are then deleted at a limit, read or not, so set the limits high enough"
	key, what := "discard", "discard new is refused"
	if s.Discard == nil {
		what = "discard new, Holdfast's default, is refused"
	}
	if s.Discard == nil && is(s.AllowMsgSchedules) {
		key = "allow_msg_schedules"
	} else if s.Discard == nil {
		key = "allow_msg_counter"
	}
	isNew := s.discard == "new"
	s.errors(
		rule{isNew && is(s.AllowMsgSchedules), diag.CodeSchedules, key, what + " with message schedules", fix},
		rule{isNew && is(s.AllowMsgCounter) && !is(s.AllowMsgSchedules), diag.CodeConflict, key, what + " with message counters", fix},
		rule{is(s.DiscardNewPer) && s.discard == "old", diag.CodeConflict, "discard_new_per_subject",
			"it needs discard new, not " + s.c.ref(s.at.with("discard")), "write discard: new, or remove discard_new_per_subject"},
		rule{is(s.DiscardNewPer) && (s.MaxMsgsPerSubject == nil && !s.isSet("max_msgs_per_subject") || or(s.MaxMsgsPerSubject, 0) == Unlimited),
			diag.CodeRequired, "discard_new_per_subject", "it needs a limit per subject", "add max_msgs_per_subject, or remove discard_new_per_subject"},
	)
}

// pair is a key that the server refuses, or silently changes, beside another one.
type pair struct {
	broken     bool
	key, other string
}

func (s stream) pairs(code diag.Code, pairs ...pair) {
	for _, p := range pairs {
		if p.broken { // to find the other's place costs more than the rest of the check
			s.errors(rule{true, code, p.key, "not possible together with " + s.c.ref(s.at.with(p.other)), "remove one of the two"})
		}
	}
}

func (s stream) features() {
	marker, schedules, counter := or(s.DeleteMarkerTTL, 0) > 0, is(s.AllowMsgSchedules), is(s.AllowMsgCounter)
	async := or(s.PersistMode, "") == "async"
	s.pairs(diag.CodeConflict,
		pair{is(s.AllowRollup) && is(s.DenyPurge), "allow_rollup_hdrs", "deny_purge"},
		pair{marker && is(s.DenyPurge), "subject_delete_marker_ttl", "deny_purge"},
		pair{marker && isNot(s.AllowMsgTTL), "subject_delete_marker_ttl", "allow_msg_ttl"},
		pair{marker && isNot(s.AllowRollup), "subject_delete_marker_ttl", "allow_rollup_hdrs"},
		pair{counter && is(s.AllowMsgTTL), "allow_msg_counter", "allow_msg_ttl"},
		pair{counter && s.retention != "limits" && s.retention != "", "allow_msg_counter", "retention"},
		pair{async && s.storage == "memory", "persist_mode", "storage"},
		pair{async && is(s.AllowAtomic), "persist_mode", "allow_atomic"},
	)
	s.pairs(diag.CodeSchedules,
		pair{schedules && is(s.DenyPurge), "allow_msg_schedules", "deny_purge"},
		pair{schedules && isNot(s.AllowRollup), "allow_msg_schedules", "allow_rollup_hdrs"},
		pair{schedules && counter, "allow_msg_schedules", "allow_msg_counter"},
		pair{schedules && s.Mirror != nil, "allow_msg_schedules", "mirror"},
		pair{schedules && len(s.Sources) > 0, "allow_msg_schedules", "sources"},
	)
	s.warnings(rule{is(s.Sealed), diag.CodeConflict, "sealed", "a stream that does not exist yet can't be created sealed", "remove it until the stream is sealed"})
}

// losing warns of what deletes messages nobody has read, or acknowledges what is not kept.
func (s stream) losing() {
	queue := s.retention == "workqueue" || s.retention == "interest"
	threshold := Duration(0)
	if s.ConsumerLimits != nil {
		threshold = or(s.ConsumerLimits.InactiveThreshold, 0)
	}
	s.warnings(
		rule{s.storage == "memory", diag.CodeLosesMessages, "storage", "every message is lost when the process stops", "write storage: file"},
		rule{is(s.NoAck), diag.CodeLosesMessages, "no_ack", "a publisher does not learn that its message was not kept", "remove no_ack"},
		rule{or(s.PersistMode, "") == "async", diag.CodeLosesMessages, "persist_mode", "messages are acknowledged before they are written: a power cut loses them", "remove persist_mode"},
		rule{queue && s.discard == "old" && !is(s.AllowMsgSchedules), diag.CodeLosesMessages, "discard", "at a limit the oldest messages are deleted although no consumer has acknowledged them",
			"write discard: new, so that publishers get an error instead"},
		rule{threshold > 0, diag.CodeLosesMessages, "consumer_limits", fmt.Sprintf("inactive_threshold removes every consumer that nobody used for %s, with its position", threshold), "remove inactive_threshold"},
	)
}

// transforms checks how subjects are renamed on the way in and on the way out.
func (s stream) transforms() {
	if t := s.SubjectTransform; t != nil {
		s.in("subject_transform").renaming("src", t.Source, t.Destination)
	}
	if r := s.Republish; r != nil {
		o := s.in("republish")
		o.renaming("src", r.Source, r.Destination)
		dest := or(r.Destination, "")
		plain := dest != "" && checkSubject(dest) == nil && !strings.Contains(dest, "{{")
		o.errors(rule{plain && !(dest == ">" && s.SubjectTransform != nil) && collideAny(Subject(dest), s.Subjects), diag.CodeOverlap, "dest",
			"the stream would store its own republished messages again, without end: it overlaps with " + s.c.ref(s.at.with("subjects")), "choose a subject outside the stream's subjects"})
	}
}
