// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// consumer is a declared consumer, its stream, and what counts where it says nothing.
type consumer struct {
	object
	Consumer
	stream  stream
	name    string
	deliver string // empty when it was refused
	ack     string
	push    bool
	pull    bool // neither when deliver_subject was refused
}

func (s stream) consumer(name string) consumer {
	x := consumer{object: s.in("consumers", name), Consumer: s.Consumers[name], stream: s, name: name}
	x.deliver = x.choice("deliver_policy", x.DeliverPolicy, "all")
	x.ack = x.choice("ack_policy", x.AckPolicy, "explicit")
	x.push = x.DeliverSubject != nil
	x.pull = !x.isSet("deliver_subject")
	return x
}

func (x consumer) check() {
	x.errors(tooLong("description", x.Description), tooMuch(x.Metadata))
	x.filters()
	x.start()
	x.redelivery()
	x.mode()
	x.flowControlAcks()
	x.priority()
	x.copies()
	x.losing()
}

func (x consumer) filters() {
	x.errors(rule{x.FilterSubject != nil && len(x.FilterSubjects) > 0, diag.CodeFilter, "filter_subjects",
		"there is filter_subject, too, at " + x.c.ref(x.at.with("filter_subject")), "put all filters into filter_subjects"})
	filters, at := x.filtered()
	for i, f := range filters {
		if x.matchesNothing(f) {
			x.c.fail(diag.CodeFilter, at(i), fmt.Sprintf("%q matches no subject of the stream: the consumer would never get a message", f),
				"choose a filter within "+x.c.ref(x.stream.at.with("subjects")))
			continue
		}
		for j, other := range filters {
			if i != j && within(f, other) && (f != other || i > j) {
				x.c.fail(diag.CodeFilter, at(i), fmt.Sprintf("%q is part of %q at %s", f, other, x.c.ref(at(j))), "remove one of the two")
				break
			}
		}
	}
}

// matchesNothing reports whether no message of the stream can pass the filter.
func (x consumer) matchesNothing(f Subject) bool {
	subjects, _ := x.stream.captured()
	// Messages that are copied or renamed have other subjects than those the stream listens on.
	known := subjects != nil && !x.stream.copied() && !x.stream.isSet("subject_transform")
	return known && !collideAny(f, subjects)
}

// filtered returns the filters and where each stands.
func (x consumer) filtered() ([]Subject, func(i int) path) {
	if x.FilterSubject != nil {
		return []Subject{*x.FilterSubject}, func(int) path { return x.at.with("filter_subject") }
	}
	return x.FilterSubjects, func(i int) path { return x.at.with("filter_subjects").with(item(i)) }
}

// start: where a consumer begins has to fit what says so.
func (x consumer) start() {
	if x.deliver == "" {
		return
	}
	bySeq, byTime := x.deliver == "by_start_sequence", x.deliver == "by_start_time"
	filtered := x.isSet("filter_subject") || x.isSet("filter_subjects")
	x.errors(
		rule{or(x.OptStartSeq, 0) > 0 && !bySeq, diag.CodeConflict, "opt_start_seq", "it has no place with deliver_policy " + x.deliver, "write deliver_policy: by_start_sequence, or remove it"},
		rule{x.OptStartTime != nil && !byTime, diag.CodeConflict, "opt_start_time", "it has no place with deliver_policy " + x.deliver, "write deliver_policy: by_start_time, or remove it"},
		rule{bySeq && or(x.OptStartSeq, 0) == 0 && !(x.OptStartSeq == nil && x.isSet("opt_start_seq")), diag.CodeRequired, "deliver_policy", "the sequence to start at is missing", "add opt_start_seq, 1 or above"},
		rule{byTime && !x.isSet("opt_start_time"), diag.CodeRequired, "deliver_policy", "the time to start at is missing", "add opt_start_time"},
		rule{x.deliver == "last_per_subject" && !filtered, diag.CodeRequired, "deliver_policy", "it needs a filter", "add filter_subject, such as the stream's own subject"},
	)
}

func (x consumer) redelivery() {
	n := or(x.MaxDeliver, Unlimited)
	x.errors(
		rule{n > 0 && len(x.Backoff) > int(n), diag.CodeBackoff, "backoff",
			fmt.Sprintf("%d steps are more than the %d deliveries of %s", len(x.Backoff), n, x.c.ref(x.at.with("max_deliver"))),
			fmt.Sprintf("write max_deliver: %d or more, or remove steps", len(x.Backoff))},
		rule{x.AckWait != nil && *x.AckWait == 0, diag.CodeValue, "ack_wait", "0s means the default of 30s to the server", "remove the line, or write a time"},
	)
	if len(x.Backoff) > 0 && or(x.AckWait, x.Backoff[0]) != x.Backoff[0] {
		x.warnings(rule{true, diag.CodeBackoff, "ack_wait", fmt.Sprintf("it has no effect: with backoff the first step, %s, is used", x.Backoff[0]), "remove ack_wait"})
	}
	if x.SampleFreq != nil {
		n, err := strconv.Atoi(strings.TrimSuffix(*x.SampleFreq, "%"))
		x.errors(rule{*x.SampleFreq != "" && (err != nil || n < 0), diag.CodeValue, "sample_freq", fmt.Sprintf("%q is not a share", *x.SampleFreq), "write a whole number and %, such as 10%"})
	}
}

// mode: some keys belong to push consumers, others to pull consumers.
func (x consumer) mode() {
	const pushOnly, pullOnly = "it is for push consumers only, and there is no deliver_subject", "it is for pull consumers only, and deliver_subject makes this one push"
	const remove, add = "remove it", "remove it, or add deliver_subject"
	heartbeat := or(x.IdleHeartbeat, 0)
	x.errors(
		rule{x.pull && or(x.RateLimit, 0) > 0, diag.CodeConflict, "rate_limit_bps", pushOnly, add},
		rule{x.pull && heartbeat > 0, diag.CodeConflict, "idle_heartbeat", pushOnly, add},
		rule{x.pull && is(x.FlowControl), diag.CodeConflict, "flow_control", pushOnly, add},
		rule{x.pull && x.DeliverGroup != nil, diag.CodeConflict, "deliver_group", pushOnly, add},
		rule{x.push && x.MaxWaiting != nil, diag.CodeConflict, "max_waiting", pullOnly, remove},
		rule{x.push && x.MaxBatch != nil, diag.CodeConflict, "max_batch", pullOnly, remove},
		rule{x.push && x.MaxExpires != nil, diag.CodeConflict, "max_expires", pullOnly, remove},
		rule{x.push && x.MaxBytes != nil, diag.CodeConflict, "max_bytes", pullOnly, remove},
		rule{or(x.MaxWaiting, 0) == Unlimited, diag.CodeValue, "max_waiting", "unlimited means the default of 512 to the server", "write a number"},
		tooShort("max_expires", or(x.MaxExpires, 0), Duration(time.Millisecond)),
		rule{is(x.FlowControl) && x.push && x.ack != "flow_control" && heartbeat == 0 && !(x.IdleHeartbeat == nil && x.isSet("idle_heartbeat")),
			diag.CodeRequired, "flow_control", "it needs heartbeats", "add idle_heartbeat, such as 5s"},
	)
	if !x.push {
		return
	}
	deliver := *x.DeliverSubject
	taken, reserved := takenBy(deliver)
	x.errors(
		tooShort("idle_heartbeat", heartbeat, shortestAge),
		rule{!literal(deliver), diag.CodeValue, "deliver_subject", "messages can't be delivered to a subject with wildcards", "write a plain subject"},
		rule{literal(deliver) && reserved, diag.CodeValue, "deliver_subject", "it is in " + taken + ", which the server needs for itself", "choose another subject"},
		rule{literal(deliver) && withinAny(deliver, x.stream.Subjects), diag.CodeOverlap, "deliver_subject",
			"the stream would store what the consumer delivers, without end: it is within " + x.c.ref(x.stream.at.with("subjects")), "choose a subject outside the stream's subjects"},
		rule{x.ack == "none" && or(x.MaxAckPending, 0) > 0, diag.CodeConflict, "max_ack_pending", "there is nothing to acknowledge with ack_policy none", "remove it"},
	)
}

func withinAny(a Subject, others []Subject) bool {
	for _, b := range others {
		if within(a, b) {
			return true
		}
	}
	return false
}

// flowControlAcks: ack_policy flow_control is for sourcing, and takes little else.
func (x consumer) flowControlAcks() {
	if x.ack != "flow_control" {
		return
	}
	const what, fix = "not possible with ack_policy flow_control", "remove it, or choose another ack_policy"
	x.errors(
		rule{x.pull, diag.CodeRequired, "ack_policy", "flow_control is for push consumers only", "add deliver_subject, or write ack_policy: explicit"},
		rule{isNot(x.FlowControl), diag.CodeConflict, "flow_control", what, fix},
		rule{x.AckWait != nil, diag.CodeConflict, "ack_wait", what, fix},
		rule{len(x.Backoff) > 0, diag.CodeConflict, "backoff", what, fix},
		rule{or(x.MaxDeliver, Unlimited) > 0, diag.CodeConflict, "max_deliver", what, fix},
		rule{or(x.MaxAckPending, 1) < 0, diag.CodeConflict, "max_ack_pending", "unlimited is " + what, "write a number"},
		rule{x.push && or(x.IdleHeartbeat, Duration(time.Second)) != Duration(time.Second), diag.CodeConflict, "idle_heartbeat", "it is 1s with ack_policy flow_control", "remove it"},
	)
}

// groupName is what nats-server takes for the name of a priority group.
var groupName = regexp.MustCompile(`^[a-zA-Z0-9/_=-]{1,16}$`)

func (x consumer) priority() {
	policy := x.choice("priority_policy", x.PriorityPolicy, "none")
	if policy == "" {
		return
	}
	const fix = "add priority_policy, or remove it"
	none := policy == "none"
	x.errors(
		rule{none && len(x.PriorityGroups) > 0, diag.CodeConflict, "priority_groups", "there is no priority_policy", fix},
		rule{none && or(x.PriorityTimeout, 0) > 0, diag.CodeConflict, "priority_timeout", "there is no priority_policy", fix},
		rule{!none && x.push, diag.CodeConflict, "priority_policy", "it is for pull consumers only, and deliver_subject makes this one push", "remove it"},
		rule{!none && len(x.PriorityGroups) == 0 && !(x.PriorityGroups == nil && x.isSet("priority_groups")), diag.CodeRequired, "priority_policy", "it needs groups", "add priority_groups, such as [main]"},
	)
	for i, g := range x.PriorityGroups {
		x.in("priority_groups").errors(rule{!groupName.MatchString(g), diag.CodeName, item(i), fmt.Sprintf("%q is not a name of a group", g), "use 1 to 16 of: letters, digits, / _ = -"})
	}
}

// copies checks numbers against those of the stream.
func (x consumer) copies() {
	s := x.stream
	n, of := or(x.NumReplicas, 0), or(s.NumReplicas, 0)
	single := x.c.cfg.Cluster == nil
	ref := x.c.ref(s.at.with("num_replicas"))
	var limits ConsumerLimits
	if s.ConsumerLimits != nil {
		limits = *s.ConsumerLimits
	}
	pending, threshold := or(limits.MaxAckPending, 0), or(limits.InactiveThreshold, 0)
	at := x.c.ref(s.at.with("consumer_limits"))
	queue := s.retention == "workqueue" || s.retention == "interest"
	x.errors(
		x.c.beyondNodes(int(n)),
		rule{!single && of > 0 && n > of, diag.CodeConflict, "num_replicas", fmt.Sprintf("more than the %d of %s", of, ref), "write auto"},
		rule{!single && queue && n > 0 && of > 0 && n < of, diag.CodeConflict, "num_replicas", fmt.Sprintf("with retention %s it has to be the %d of %s", s.retention, of, ref), "write auto"},
		rule{pending > 0 && or(x.MaxAckPending, 0) > pending, diag.CodeConflict, "max_ack_pending", fmt.Sprintf("more than the %s of %s", pending, at), "write less, or raise the stream's limit"},
		rule{threshold > 0 && or(x.InactiveThreshold, 0) > threshold, diag.CodeConflict, "inactive_threshold", fmt.Sprintf("more than the %s of %s", threshold, at), "write less, or raise the stream's limit"},
	)
}

func (x consumer) losing() {
	queue := x.stream.retention == "workqueue"
	inMemory := "the consumer's position is lost when the process stops: messages are delivered again"
	if x.stream.retention == "interest" {
		// Nobody waits for them any more, which is what this retention goes by.
		inMemory = "the consumer is gone when the process stops, and with it the messages that only it had not acknowledged"
	}
	x.warnings(
		rule{x.ack == "none" && !queue, diag.CodeLosesMessages, "ack_policy", "a message counts as done when it was sent: what a worker does not finish is lost", "write ack_policy: explicit"},
		rule{or(x.InactiveThreshold, 0) > 0, diag.CodeLosesMessages, "inactive_threshold",
			fmt.Sprintf("the consumer is removed, with its position, when nobody used it for %s", or(x.InactiveThreshold, 0)), "remove inactive_threshold"},
		rule{is(x.MemStorage), diag.CodeLosesMessages, "mem_storage", inMemory, "remove mem_storage"},
	)
}
