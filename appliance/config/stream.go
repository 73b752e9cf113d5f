// SPDX-License-Identifier: Apache-2.0

package config

import "reflect"

// Stream declares one stream. A nil field is not set: a create leaves it to
// Holdfast's and the server's defaults, and an existing stream keeps what it has.
type Stream struct {
	Description       *string           `key:"description" help:"free text"`
	Subjects          []Subject         `key:"subjects" help:"subjects whose messages the stream keeps; without it the stream's own name"`
	Retention         *string           `key:"retention" help:"limits: kept until a limit is reached; interest: until every consumer has acknowledged; workqueue: until one consumer has acknowledged" enum:"limits|interest|workqueue"`
	MaxConsumers      *Count            `key:"max_consumers" help:"number of consumers the stream may have"`
	MaxMsgs           *Count            `key:"max_msgs" help:"number of messages kept"`
	MaxBytes          *Size             `key:"max_bytes" help:"bytes kept; required, and 'unlimited' must be written out"`
	MaxAge            *Duration         `key:"max_age" help:"age after which a message is removed; 0s is never"`
	MaxMsgsPerSubject *Count            `key:"max_msgs_per_subject" help:"number of messages kept per subject"`
	MaxMsgSize        *Size             `key:"max_msg_size" help:"bytes of the largest message the stream takes" example:"1MiB"`
	Discard           *string           `key:"discard" help:"what happens at a limit; new: publishers get an error; old: the oldest messages are deleted, read or not (default new)" enum:"new|old"`
	DiscardNewPer     *bool             `key:"discard_new_per_subject" help:"with discard new: also at max_msgs_per_subject"`
	Storage           *string           `key:"storage" help:"file: survives a restart; memory: does not (default file)" enum:"file|memory"`
	NumReplicas       *Replicas         `key:"num_replicas" help:"copies: auto (1 on one node, 3 on three) or 1 to 5"`
	NoAck             *bool             `key:"no_ack" help:"publishers get no acknowledgement"`
	DuplicateWindow   *Duration         `key:"duplicate_window" help:"time in which a repeated Nats-Msg-Id is dropped (server default 2m)" example:"2m"`
	Placement         *Placement        `key:"placement" help:"which servers of a cluster hold the stream"`
	Mirror            *StreamSource     `key:"mirror" help:"the stream is a copy of another one; {} makes a copy a stream of its own"`
	Sources           []StreamSource    `key:"sources" help:"streams whose messages are copied into this one"`
	Compression       *string           `key:"compression" help:"compression of stored blocks" enum:"none|s2"`
	FirstSeq          *uint64           `key:"first_seq" help:"sequence of the first message, at creation only"`
	SubjectTransform  *Transform        `key:"subject_transform" help:"renames subjects of incoming messages; {} is none"`
	Republish         *Republish        `key:"republish" help:"sends every stored message on to another subject; {} is none"`
	AllowDirect       *bool             `key:"allow_direct" help:"messages can be read by any replica without a consumer"`
	MirrorDirect      *bool             `key:"mirror_direct" help:"a mirror takes part in direct reads"`
	Sealed            *bool             `key:"sealed" help:"nothing can be added or removed any more; can't be undone"`
	DenyDelete        *bool             `key:"deny_delete" help:"single messages can't be deleted; can't be undone"`
	DenyPurge         *bool             `key:"deny_purge" help:"the stream can't be purged; can't be undone"`
	AllowRollup       *bool             `key:"allow_rollup_hdrs" help:"a message with Nats-Rollup replaces those before it"`
	ConsumerLimits    *ConsumerLimits   `key:"consumer_limits" help:"limits for the stream's consumers"`
	AllowMsgTTL       *bool             `key:"allow_msg_ttl" help:"messages may carry their own Nats-TTL; can't be undone"`
	DeleteMarkerTTL   *Duration         `key:"subject_delete_marker_ttl" help:"how long a marker stays after the last message of a subject is gone"`
	AllowMsgCounter   *bool             `key:"allow_msg_counter" help:"messages are counters (Nats-Incr)"`
	AllowAtomic       *bool             `key:"allow_atomic" help:"clients may send atomic batches of their own; false also ends group_commit on one node"`
	AllowMsgSchedules *bool             `key:"allow_msg_schedules" help:"delayed and repeating messages (Nats-Schedule); needs discard old; can't be undone"`
	PersistMode       *string           `key:"persist_mode" help:"async acknowledges before the message is written" example:"default" enum:"default|async"`
	AllowBatched      *bool             `key:"allow_batched" help:"fast ingest batches are accepted"`
	Metadata          map[string]string `key:"metadata" help:"free keys and values"`

	Consumers   map[string]Consumer `key:"consumers" help:"consumers of the stream; the name is the key" own:"yes" name:"consumer"`
	GroupCommit *string             `key:"group_commit" help:"one fsync for all publishers that wait, and for all acknowledgements of a work queue; auto: where it is sound and pays (default auto)" enum:"auto|on|off" own:"yes"`
	Partitions  *Count              `key:"partitions" help:"splits the stream by subject, to use more of the disk" own:"yes" later:"*"`
}

// IsMirror reports whether the stream copies another one. An empty mirror says that
// it does not.
func (s Stream) IsMirror() bool { return s.Mirror != nil && !reflect.ValueOf(*s.Mirror).IsZero() }

// written returns the stream without the objects in which nothing is written: these
// say that there is to be none.
func (s Stream) written() Stream {
	if !s.IsMirror() {
		s.Mirror = nil
	}
	if s.Republish != nil && *s.Republish == (Republish{}) {
		s.Republish = nil
	}
	if s.SubjectTransform != nil && *s.SubjectTransform == (Transform{}) {
		s.SubjectTransform = nil
	}
	return s
}

// Placement chooses servers of a cluster.
type Placement struct {
	Cluster   *string  `key:"cluster" help:"name of the cluster"`
	Tags      []string `key:"tags" help:"tags every chosen server has"`
	Preferred *string  `key:"preferred" help:"server that should lead, at a leader change only"`
}

// StreamSource is another stream that messages are copied from.
type StreamSource struct {
	Name              *string         `key:"name" help:"name of the stream"`
	OptStartSeq       *uint64         `key:"opt_start_seq" help:"first sequence to copy"`
	OptStartTime      *Time           `key:"opt_start_time" help:"oldest message to copy"`
	FilterSubject     *Subject        `key:"filter_subject" help:"only messages of this subject"`
	SubjectTransforms []Transform     `key:"subject_transforms" help:"filters and renames subjects while copying"`
	External          *External       `key:"external" help:"the stream is in another account or domain"`
	Consumer          *SourceConsumer `key:"consumer" help:"a durable consumer made beforehand at the origin"`
}

// External reaches a stream of another account or domain.
type External struct {
	API     *string `key:"api" help:"API prefix there: $JS.<domain>.API"`
	Deliver *string `key:"deliver" help:"prefix of delivery subjects"`
}

// SourceConsumer is a consumer made beforehand at the origin.
type SourceConsumer struct {
	Name           *string  `key:"name" help:"name of the consumer"`
	DeliverSubject *Subject `key:"deliver_subject" help:"where it delivers to"`
}

// Transform renames subjects.
type Transform struct {
	Source      *Subject `key:"src" help:"subjects it applies to"`
	Destination *string  `key:"dest" help:"new subject; {{wildcard(1)}} and the other transform functions may be used"`
}

// Republish sends stored messages on.
type Republish struct {
	Source      *Subject `key:"src" help:"subjects it applies to"`
	Destination *string  `key:"dest" help:"subject they are sent to"`
	HeadersOnly *bool    `key:"headers_only" help:"without the payload"`
}

// ConsumerLimits bounds the consumers of a stream.
type ConsumerLimits struct {
	InactiveThreshold *Duration `key:"inactive_threshold" help:"longest time a consumer may set"`
	MaxAckPending     *Count    `key:"max_ack_pending" help:"most messages a consumer may have delivered and unacknowledged"`
}

// Consumer declares one durable consumer. A nil field is not set.
type Consumer struct {
	Description       *string           `key:"description" help:"free text"`
	DeliverPolicy     *string           `key:"deliver_policy" help:"where it starts (default all)" enum:"all|last|new|by_start_sequence|by_start_time|last_per_subject"`
	OptStartSeq       *uint64           `key:"opt_start_seq" help:"first sequence, with deliver_policy by_start_sequence"`
	OptStartTime      *Time             `key:"opt_start_time" help:"oldest message, with deliver_policy by_start_time"`
	AckPolicy         *string           `key:"ack_policy" help:"explicit: each message is acknowledged (default); all: acknowledges those before it too; none: delivered once, then forgotten; flow_control: for sourcing" enum:"explicit|all|none|flow_control"`
	AckWait           *Duration         `key:"ack_wait" help:"time until an unacknowledged message is delivered again (server default 30s)"`
	MaxDeliver        *Count            `key:"max_deliver" help:"how often a message is delivered before it is given up"`
	Backoff           []Duration        `key:"backoff" help:"times between deliveries, instead of ack_wait"`
	FilterSubject     *Subject          `key:"filter_subject" help:"only messages of this subject"`
	FilterSubjects    []Subject         `key:"filter_subjects" help:"only messages of these subjects"`
	ReplayPolicy      *string           `key:"replay_policy" help:"as fast as possible, or at the speed they came" enum:"instant|original"`
	RateLimit         *uint64           `key:"rate_limit_bps" help:"bits per second, push only" example:"1000000"`
	SampleFreq        *string           `key:"sample_freq" help:"share of acknowledgements that are reported, such as 10%" example:"10%"`
	MaxWaiting        *Count            `key:"max_waiting" help:"pull requests that may wait (server default 512)" example:"512"`
	MaxAckPending     *Count            `key:"max_ack_pending" help:"messages delivered and not yet acknowledged, over all workers (server default 1000)"`
	FlowControl       *bool             `key:"flow_control" help:"flow control, push only"`
	HeadersOnly       *bool             `key:"headers_only" help:"delivers headers without the payload"`
	MaxBatch          *Count            `key:"max_batch" help:"messages one pull request may ask for" example:"100"`
	MaxExpires        *Duration         `key:"max_expires" help:"longest time a pull request may wait"`
	MaxBytes          *Size             `key:"max_bytes" help:"bytes one pull request may ask for"`
	DeliverSubject    *Subject          `key:"deliver_subject" help:"makes it a push consumer that sends to this subject"`
	DeliverGroup      *string           `key:"deliver_group" help:"queue group of the push consumer's subscribers"`
	IdleHeartbeat     *Duration         `key:"idle_heartbeat" help:"time between heartbeats, push only" example:"5s"`
	InactiveThreshold *Duration         `key:"inactive_threshold" help:"the consumer is REMOVED when nobody used it for this long; leave it unset for a queue"`
	NumReplicas       *Replicas         `key:"num_replicas" help:"copies of the consumer's state; auto: as the stream"`
	MemStorage        *bool             `key:"mem_storage" help:"keeps the consumer's state in memory: its position is lost with the process"`
	Metadata          map[string]string `key:"metadata" help:"free keys and values"`
	PauseUntil        *Time             `key:"pause_until" help:"delivers nothing before this time"`
	PriorityGroups    []string          `key:"priority_groups" help:"names of the groups workers pull in"`
	PriorityPolicy    *string           `key:"priority_policy" help:"how groups are served" enum:"none|overflow|pinned_client|prioritized"`
	PriorityTimeout   *Duration         `key:"priority_timeout" help:"time until a silent pinned client loses its place (server default 2m)" example:"2m"`

	DeadLetter *bool          `key:"dead_letter" help:"messages that used up max_deliver move to a dead letter stream" own:"yes" later:"true"`
	Ordering   *string        `key:"ordering" help:"single_active: one worker at a time" enum:"none|single_active" own:"yes" later:"single_active"`
	Alert      *ConsumerAlert `key:"alert" help:"thresholds of this consumer, instead of alerts" own:"yes" later:"*"`
}

// ConsumerAlert are thresholds for one consumer.
type ConsumerAlert struct {
	Lag         *Count    `key:"lag" help:"messages the consumer is behind"`
	Oldest      *Duration `key:"oldest" help:"age of the oldest unacknowledged message"`
	Redelivered *Count    `key:"redelivered" help:"messages delivered more than once and not yet acknowledged"`
}
