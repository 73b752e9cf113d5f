// SPDX-License-Identifier: Apache-2.0

package bootstrap

// Class is what the server does with a change of one field.
type Class string

const (
	// InPlace is accepted; nothing stored is touched.
	InPlace Class = "in place"
	// Drops is accepted and removes stored messages, now or later.
	Drops Class = "drops data"
	// OnlyOnce is accepted and never taken back.
	OnlyOnce Class = "one-way"
	// Anew is refused, or taken without effect: the object has to be deleted and
	// created, its data carried over by a copy.
	Anew Class = "recreate"
	// Never can't be had for what exists, not even by a recreate that keeps the data.
	Never Class = "blocked"
)

const (
	reasonNotKnown = "this version does not know how the server changes it"
	reasonPause    = "by the pause request: an update leaves it as it is"
)

// classify says what changing one field of an existing object does, and why when
// that is not in place. have and want are its whole configuration before and
// after, under the JetStream API's names; stream is the configuration of the
// stream that a consumer belongs to, which is not needed for a stream.
//
// The rules are those of nats-server 2.15.3. The tests of bootstrap/jetstream
// send each change to a real server; TestClassifyAgreesWithTheRealServer
// compares.
func classify(kind Kind, c FieldChange, have, want, stream map[string]any) (Class, string) {
	x := change{key: c.key(), field: c.Field, have: have, want: want, stream: stream}
	if kind == KindConsumer {
		if why := x.consumerBarred(); why != "" {
			return Never, why
		}
		return x.consumer()
	}
	if why := x.streamBarred(); why != "" {
		return Never, why
	}
	return x.ofStream()
}

// change is one changed field and all that its class depends on.
type change struct {
	key, field         string
	have, want, stream map[string]any
}

func (x change) ofStream() (Class, string) {
	switch x.key {
	case "max_msgs", "max_bytes", "max_age", "max_msgs_per_subject":
		return x.limit()
	case "retention":
		return x.retention()
	case "discard":
		return x.discard()
	case "discard_new_per_subject":
		if !isOn(x.want, x.key) && limited(x.want, "max_msgs_per_subject") {
			return Drops, "at max_msgs_per_subject the oldest message of a subject is removed from then on"
		}
		return InPlace, ""
	case "sealed", "deny_delete", "deny_purge", "allow_msg_ttl", "allow_msg_schedules":
		return x.onlyOn()
	case "subject_delete_marker_ttl":
		if isZero(x.have[x.key]) && !isZero(x.want[x.key]) && !isOn(x.have, "allow_msg_ttl") {
			return OnlyOnce, "turns on allow_msg_ttl, which the server never takes back"
		}
		return InPlace, ""
	case "mirror":
		if isZero(x.want[x.key]) && !isZero(x.have[x.key]) {
			return OnlyOnce, "the stream stops copying for good and is a stream of its own from then on"
		}
		return Never, "what a stream mirrors is fixed at creation: another origin would replace its messages; declare a stream of another name"
	case "storage", "persist_mode":
		return x.anew(x.refused("stream"))
	case "allow_msg_counter":
		return Never, "messages that are stored can't become counters, or stop being counters; declare a stream of another name"
	case "first_seq":
		return Never, "it counts at creation only: the server would take it and do nothing; remove the line"
	case "description", "subjects", "max_consumers", "max_msg_size", "num_replicas", "no_ack", "duplicate_window",
		"placement", "sources", "compression", "subject_transform", "republish", "allow_direct", "mirror_direct",
		"allow_rollup_hdrs", "consumer_limits", "allow_atomic", "allow_batched", "metadata":
		return InPlace, ""
	}
	return Never, reasonNotKnown
}

func (x change) refused(what string) string {
	return "the server does not change " + x.key + " of an existing " + what
}

// anew is for what takes a new stream. A copy stands for most streams; for some it
// would lose what they are.
func (x change) anew(why string) (Class, string) {
	switch {
	case isOn(x.have, "sealed"):
		return Never, why + ", and this one is sealed: make a new stream and copy the messages with `sources`"
	case !isZero(x.have["mirror"]):
		return Never, why + ", and this one is a mirror: delete it, and it is made and filled anew"
	case !isZero(x.have["sources"]):
		return Never, why + ", and this one would copy everything from its sources a second time: declare a stream of another name"
	case isOn(x.have, "allow_msg_schedules"):
		return Never, why + ", and its scheduled messages would fire twice or not at all: make a new stream and move the publishers"
	}
	return Anew, why
}

// limit: a limit that gets lower is enforced by removing messages, if not at
// once then as new ones arrive or when the stream discards old ones again.
func (x change) limit() (Class, string) {
	if !lowered(x.have[x.key], x.want[x.key]) {
		return InPlace, ""
	}
	switch {
	case x.key == "max_age":
		return Drops, "lowers the limit: messages older than it are removed"
	case x.key == "max_msgs_per_subject":
		return Drops, "lowers the limit: the oldest messages of a subject over it are removed"
	case text(x.want["discard"]) == "new":
		return Drops, "lowers the limit: what is over it now stays while the stream discards new messages, and is removed once it discards old ones"
	}
	return Drops, "lowers the limit: the oldest messages over it are removed"
}

func (x change) retention() (Class, string) {
	from, to := text(x.have[x.key]), text(x.want[x.key])
	switch {
	case from == "workqueue" || to == "workqueue":
		return x.anew("the server does not change retention to or from workqueue")
	case to == "interest":
		return Drops, "what every consumer has acknowledged is removed; without a consumer, everything is"
	}
	return InPlace, ""
}

// discard: under discard new a stream can be over a limit that was lowered.
func (x change) discard() (Class, string) {
	if text(x.want[x.key]) == "new" || !limited(x.want, "max_msgs") && !limited(x.want, "max_bytes") {
		return InPlace, ""
	}
	return Drops, "what is over a limit is removed at once, and at a limit the oldest messages are removed from then on"
}

// onlyOn is for what the server turns on and never off.
func (x change) onlyOn() (Class, string) {
	switch {
	case !isOn(x.want, x.key):
		return Never, "the server never takes it back; remove the line, or declare a stream of another name"
	case x.key == "sealed":
		return OnlyOnce, "publishers are refused from then on; the server never takes it back"
	}
	return OnlyOnce, "the server never takes it back"
}

// streamBarred says why the server refuses a change, or takes it without effect,
// beside another field that the change does not touch.
func (x change) streamBarred() string {
	is := func(field string) bool { return isOn(x.want, field) }
	sets := !isZero(x.want[x.key])
	switch {
	case x.field == "placement.preferred":
		return "the server takes it at a change of leader only"
	case x.key == "mirror_direct" && isLocalMirror(x.want):
		return "a mirror of a stream of the account takes it from that stream's allow_direct"
	case isOn(x.have, "sealed") && (is("allow_msg_schedules") || !isZero(x.want["subject_delete_marker_ttl"])):
		return "the server refuses every change of a sealed stream with delete markers or schedules"
	case isOn(x.have, "sealed") && x.fixedBySeal():
		return "the server fixes it for a sealed stream"
	case x.key == "discard" && text(x.want[x.key]) == "new" && (is("allow_msg_schedules") || is("allow_msg_counter")):
		return "the server refuses discard new with allow_msg_schedules and with allow_msg_counter"
	case x.key == "sources" && sets && is("allow_msg_schedules"):
		return "the server refuses sources with allow_msg_schedules"
	case isOn(x.have, "deny_purge") && sets && !isOn(x.have, "allow_rollup_hdrs") &&
		(x.key == "allow_rollup_hdrs" || x.key == "subject_delete_marker_ttl" || x.key == "allow_msg_schedules"):
		return "it needs roll-ups, which deny_purge excludes for good"
	case x.key == "deny_purge" && sets && is("allow_rollup_hdrs"):
		return "the server refuses it with allow_rollup_hdrs: write allow_rollup_hdrs: false"
	case x.key == "allow_rollup_hdrs" && !sets && (is("allow_msg_schedules") || !isZero(x.want["subject_delete_marker_ttl"])):
		return "schedules and delete markers need it: the server turns it on again"
	case x.key == "allow_atomic" && sets && text(x.want["persist_mode"]) == "async":
		return "the server refuses it with persist_mode async"
	case x.key == "num_replicas" && text(x.want["persist_mode"]) == "async":
		return "the server keeps one copy of a stream with persist_mode async"
	}
	return ""
}

func (x change) fixedBySeal() bool {
	switch x.key {
	case "max_age", "discard", "discard_new_per_subject", "allow_rollup_hdrs", "deny_delete", "deny_purge":
		return true
	}
	return false
}

func (x change) consumer() (Class, string) {
	switch x.key {
	case "deliver_policy", "opt_start_seq", "opt_start_time", "ack_policy", "replay_policy", "max_waiting",
		"flow_control", "idle_heartbeat", "mem_storage":
		return Anew, x.refused("consumer")
	case "deliver_subject":
		if isZero(x.have[x.key]) || isZero(x.want[x.key]) {
			return Anew, "the server does not change a pull consumer into a push consumer, or back"
		}
		return InPlace, "the server refuses it while somebody listens on the old subject"
	case "filter_subject", "filter_subjects":
		if text(x.stream["retention"]) == "interest" && len(filters(x.want)) > 0 {
			return Drops, "the stream keeps what a consumer waits for: messages that no filter takes any more are removed"
		}
		return InPlace, ""
	case "pause_until":
		return InPlace, reasonPause
	case "durable_name":
		if isZero(x.want[x.key]) {
			return Never, "a consumer without it is removed once nobody uses it"
		}
		return InPlace, ""
	case "description", "ack_wait", "max_deliver", "backoff", "rate_limit_bps", "sample_freq", "max_ack_pending",
		"headers_only", "max_batch", "max_expires", "max_bytes", "deliver_group", "inactive_threshold", "num_replicas",
		"metadata", "priority_groups", "priority_policy", "priority_timeout":
		return InPlace, ""
	}
	return Never, reasonNotKnown
}

func (x change) consumerBarred() string {
	if x.key == "ack_wait" && !isZero(x.want["backoff"]) {
		return "with backoff the server takes the first step instead"
	}
	return ""
}

func isOn(config map[string]any, field string) bool { return config[field] == true }

// limited reports whether a limit is set: the server writes -1 or 0 for none.
func limited(config map[string]any, field string) bool { return isLimit(config[field]) }

func isLimit(v any) bool {
	n, ok := number(v)
	return ok && n.Sign() > 0
}

func lowered(have, want any) bool {
	if !isLimit(want) {
		return false
	}
	if !isLimit(have) {
		return true
	}
	h, _ := number(have)
	w, _ := number(want)
	return w.Cmp(h) < 0
}

func isLocalMirror(config map[string]any) bool {
	mirror, ok := config["mirror"].(map[string]any)
	return ok && isLocal(mirror)
}
