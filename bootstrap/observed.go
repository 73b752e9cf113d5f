// SPDX-License-Identifier: Apache-2.0

package bootstrap

import "time"

// Observed is what the server has. An account that is not in it has nothing.
type Observed struct {
	Accounts map[string]ObservedAccount `json:"accounts"`
}

// ObservedAccount is what the server has in one account.
type ObservedAccount struct {
	Streams map[string]ObservedStream `json:"streams,omitempty"`
	// Unavailable says why the account could not be read; then nothing is known
	// about its streams and nothing may be created.
	Unavailable string `json:"unavailable,omitempty"`
}

// ObservedStream is a stream the server has.
type ObservedStream struct {
	Config    map[string]any              `json:"config,omitempty"`
	State     StreamState                 `json:"state"`
	Created   time.Time                   `json:"created,omitzero"`
	Consumers map[string]ObservedConsumer `json:"consumers,omitempty"`
	// Unavailable says why the stream exists but could not be read.
	Unavailable string `json:"unavailable,omitempty"`
	// Silent: nobody who keeps it answered, and what others do is known.
	Silent bool `json:"-"`
	// Placement may be known of one that could not be read, too.
	Placement Placement `json:"-"`
}

// ObservedConsumer is a consumer the server has.
type ObservedConsumer struct {
	Config  map[string]any `json:"config,omitempty"`
	State   ConsumerState  `json:"state"`
	Created time.Time      `json:"created,omitzero"`
	// WorkQueue is true when the stream deletes what is acknowledged: then all
	// it stores for this consumer waits, even below the acknowledgement floor.
	WorkQueue bool `json:"work_queue,omitempty"`
	// Unavailable says why the consumer exists but could not be read.
	Unavailable string    `json:"unavailable,omitempty"`
	Silent      bool      `json:"-"` // as of a stream
	Placement   Placement `json:"-"`
}

// Placement is where the copies of a stream or consumer are, under the JetStream API's
// JSON names. It is the zero value on a single node.
type Placement struct {
	// Leader is the node that decides; empty while there is none.
	Leader string `json:"leader"`
	// Replicas are the other copies; all of them while there is no leader.
	Replicas []Replica `json:"replicas"`
}

// Replica is a copy of a stream or consumer.
type Replica struct {
	Node    string        `json:"name"`
	Current bool          `json:"current"`
	Offline bool          `json:"offline"`
	Seen    time.Duration `json:"active"` // how long ago
	Behind  uint64        `json:"lag"`    // changes
}

// StreamState is the state of a stream, under the JetStream API's JSON names.
type StreamState struct {
	Messages    uint64    `json:"messages"`
	Bytes       uint64    `json:"bytes"`
	FirstSeq    uint64    `json:"first_seq"`
	FirstTime   time.Time `json:"first_ts"`
	LastSeq     uint64    `json:"last_seq"`
	LastTime    time.Time `json:"last_ts"`
	NumSubjects int       `json:"num_subjects,omitempty"`
	NumDeleted  int       `json:"num_deleted,omitempty"`
	Lost        *Lost     `json:"lost,omitempty"`
	Consumers   int       `json:"consumer_count"`
}

// Lost is what the server could not read back from disk.
type Lost struct {
	Messages []uint64 `json:"msgs"`
	Bytes    uint64   `json:"bytes"`
}

// ConsumerState is the state of a consumer, under the JetStream API's JSON names.
type ConsumerState struct {
	Delivered      SequencePair  `json:"delivered"`
	AckFloor       SequencePair  `json:"ack_floor"`
	NumPending     uint64        `json:"num_pending"`
	NumAckPending  int           `json:"num_ack_pending"`
	NumRedelivered int           `json:"num_redelivered"`
	NumWaiting     int           `json:"num_waiting"`
	PushBound      bool          `json:"push_bound,omitempty"`
	Paused         bool          `json:"paused,omitempty"`
	PauseRemaining time.Duration `json:"pause_remaining,omitempty"`
}

// SequencePair is a position, counted in deliveries and in the stream.
type SequencePair struct {
	Consumer   uint64     `json:"consumer_seq"`
	Stream     uint64     `json:"stream_seq"`
	LastActive *time.Time `json:"last_active,omitempty"`
}
