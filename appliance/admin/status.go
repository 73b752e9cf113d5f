// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Phase is where a node is in its life.
type Phase string

// The phases, in the order in which a node goes through them.
const (
	PhaseStarting Phase = "starting"
	// PhaseJoining is that of a node that has no identity yet, and waits for the others
	// of its cluster.
	PhaseJoining    Phase = "joining"
	PhaseRecovering Phase = "recovering"
	PhaseApplying   Phase = "applying"
	PhaseRunning    Phase = "running"
	PhaseDraining   Phase = "draining"
	PhaseStopped    Phase = "stopped"
)

// Status is all that a node tells about itself.
type Status struct {
	Ready bool  `json:"ready"`
	Phase Phase `json:"phase"`
	// Missing says what readiness waits for, one sentence each.
	Missing    []string   `json:"missing,omitempty"`
	Node       NodeStatus `json:"node"`
	Listeners  []Listener `json:"listeners"`
	Durability Durability `json:"durability"`
	// NeedRestart names what of the file is in force only after a restart.
	NeedRestart []string `json:"need_restart,omitempty"`
	// Damage was found in what is stored, and stays until somebody removes it from the
	// quarantine in the data directory.
	Damage   []Damage        `json:"damage,omitempty"`
	Verify   VerifyStatus    `json:"verify"`
	Storage  Storage         `json:"storage"`
	Recovery *Recovery       `json:"recovery,omitempty"`
	Traffic  Traffic         `json:"traffic"`
	Accounts []AccountStatus `json:"accounts"`
	// Cluster is what the node knows of the others; absent on a single node.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Certificates are those of the client listener, empty without TLS.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Refusals are what clients were not allowed since the start.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Problems are warnings that stand: what differs from the file, and why
	// something could not be created.
	Problems []Problem `json:"problems,omitempty"`
}

// Problem is diag.Problem for machines.
type Problem struct {
	Severity string    `json:"severity"`
	Code     diag.Code `json:"code"`
	Where    string    `json:"where,omitempty"` // for people: file:line:col, $VARIABLE or --flag
	File     string    `json:"file,omitempty"`
	Line     int       `json:"line,omitempty"`
	Column   int       `json:"column,omitempty"`
	What     string    `json:"what"`
	Fix      string    `json:"fix,omitempty"`
}

// Problems converts a list for machines.
func Problems(l diag.List) []Problem {
	out := make([]Problem, len(l))
	for i, p := range l {
		where, what := p.Pos.String(), p.What
		if p.Path != "" {
			what = p.Path + ": " + what
		}
		out[i] = Problem{Severity: p.Severity.String(), Code: p.Code, Where: where, What: what, Fix: p.Fix}
		if p.Pos.Origin == "" {
			out[i].File, out[i].Line, out[i].Column = p.Pos.File, p.Pos.Line, p.Pos.Col
		}
	}
	return out
}

// NodeStatus is the process.
type NodeStatus struct {
	Name          string    `json:"name"`
	Version       string    `json:"version"`
	NATSVersion   string    `json:"nats_version"`
	PID           int       `json:"pid"`
	Started       time.Time `json:"started"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	DataDir       string    `json:"data_dir"`
	ConfigFiles   []string  `json:"config_files,omitempty"` // empty: the built-in starter
	ConfigDigest  string    `json:"config_digest"`
	// MemoryLimit is the soft limit the Go runtime keeps to, in bytes; 0 is none.
	MemoryLimit int64 `json:"memory_limit_bytes"`
}

// Listener is one address the node listens on.
type Listener struct {
	Name    string `json:"name"` // client, http or admin
	Address string `json:"address"`
	Open    bool   `json:"open"`
}

// Durability is when a message is on disk.
type Durability struct {
	Mode                string  `json:"mode"` // strict or interval
	SyncIntervalSeconds float64 `json:"sync_interval_seconds,omitempty"`
}

// Storage is the disk, in bytes.
type Storage struct {
	Limit       int64  `json:"limit_bytes"`
	Reserved    int64  `json:"reserved_bytes"` // by streams with a byte limit
	Promised    int64  `json:"promised_bytes"` // what the streams of the file may take: Limit, when one has no byte limit
	Used        int64  `json:"used_bytes"`
	VolumeTotal int64  `json:"volume_total_bytes"`
	VolumeFree  int64  `json:"volume_free_bytes"`
	FileSystem  string `json:"file_system"`
	// MinFree is storage.min_free in bytes: what publishers leave free.
	MinFree int64 `json:"min_free_bytes"`
	// PublishingStopped says why nothing is stored in files now; empty while it is.
	PublishingStopped      string     `json:"publishing_stopped,omitempty"`
	PublishingStoppedSince *time.Time `json:"publishing_stopped_since,omitempty"`
	// WriteError is what a write to the data directory met last; empty when it worked.
	WriteError string `json:"write_error,omitempty"`
	// FullInSeconds is when MinFree is reached, as things went lately; 0 when the volume
	// does not fill up.
	FullInSeconds float64 `json:"full_in_seconds,omitempty"`
	// Encryption is how what is stored is encrypted; absent when it is not.
	Encryption *Encryption `json:"encryption,omitempty"`
	// FlushSeconds is how long the volume took at the start to make a message durable.
	FlushSeconds float64 `json:"flush_seconds"`
	// Flushes are those of the last ten minutes, one every few seconds; nil when there
	// was none.
	Flushes *Latency `json:"flushes,omitempty"`
	// WriteErrors counts since the start: streams that could not be written, and
	// Holdfast's own tries that did not work.
	WriteErrors uint64 `json:"write_errors"`
	// MemoryUsed and MemoryLimit are those of memory streams.
	MemoryUsed  int64 `json:"memory_used_bytes"`
	MemoryLimit int64 `json:"memory_limit_bytes"`
}

// Latency is how long something took, in seconds.
type Latency struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_seconds"`
	P99   float64 `json:"p99_seconds"`
	Max   float64 `json:"max_seconds"`
}

// Encryption is how what is stored is encrypted.
type Encryption struct {
	Cipher string `json:"cipher"` // aes or chacha
	// PreviousKey: the configuration names a key before the present one, which has done
	// its work.
	PreviousKey bool `json:"previous_key,omitempty"`
}

// Damage is a piece of a stream that could not be read.
type Damage struct {
	Stream string     `json:"stream"` // ACCOUNT/STREAM
	Found  time.Time  `json:"found"`
	Lost   string     `json:"lost"` // sequences, in words
	Ranges []SeqRange `json:"ranges"`
	// Open is true for a block that was found damaged while the node ran, and is not
	// mended: the server cuts it off where it is damaged, when it reads it.
	Open     bool   `json:"open,omitempty"`
	Original string `json:"original,omitempty"` // what was found, as a file
}

// SeqRange is a range of sequences, both ends in it. To is 0 where the end of the stream
// was lost, and how far it went is not known.
type SeqRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Recovery is how far reading the store at start has come.
type Recovery struct {
	StreamsDone  int    `json:"streams_done"`
	StreamsTotal int    `json:"streams_total"`
	BytesDone    int64  `json:"bytes_done"`
	BytesTotal   int64  `json:"bytes_total"`
	Current      string `json:"current,omitempty"` // ACCOUNT/STREAM
	// BytesChecked and BytesToCheck are of the blocks that are looked at for damage
	// before anything is recovered: those that a clean stop did not leave behind.
	BytesChecked int64 `json:"bytes_checked"`
	BytesToCheck int64 `json:"bytes_to_check"`
}

// Traffic is what clients do.
type Traffic struct {
	Connections   int   `json:"connections"`
	InMsgs        int64 `json:"in_msgs"`
	InBytes       int64 `json:"in_bytes"`
	OutMsgs       int64 `json:"out_msgs"`
	OutBytes      int64 `json:"out_bytes"`
	SlowConsumers int64 `json:"slow_consumers"`
}

// AccountStatus is an account and its streams.
type AccountStatus struct {
	Name string `json:"name"`
	// InFile is false for an account that the file no longer declares.
	InFile bool `json:"in_file"`
	// Unavailable says why nothing is known about the account's streams.
	Unavailable string         `json:"unavailable,omitempty"`
	Streams     []StreamStatus `json:"streams"`
	// GroupCommit counts since the start; absent when no stream has it.
	GroupCommit *GroupCounters `json:"group_commit,omitempty"`
}

// GroupCommit says whether the messages of a stream are made durable together.
type GroupCommit struct {
	On     bool   `json:"on"`
	Reason string `json:"reason,omitempty"` // why not
}

// GroupCounters count what went through group commit.
type GroupCounters struct {
	Alone      uint64 `json:"alone"`      // messages that went by themselves
	Grouped    uint64 `json:"grouped"`    // messages that went in batches
	Batches    uint64 `json:"batches"`    // batches that were stored
	Fallbacks  uint64 `json:"fallbacks"`  // batches that the server refused; their messages went by themselves then
	Refused    uint64 `json:"refused"`    // messages refused because too many waited
	Unanswered uint64 `json:"unanswered"` // batches and messages that the server did not answer in time
}

// StreamStatus is a stream. Limits are -1 where there is none.
type StreamStatus struct {
	Name        string           `json:"name"`
	InFile      bool             `json:"in_file"`
	Subjects    []string         `json:"subjects,omitempty"`
	Retention   string           `json:"retention"`
	Storage     string           `json:"storage"`
	Replicas    int64            `json:"num_replicas"`
	Messages    uint64           `json:"messages"`
	Bytes       uint64           `json:"bytes"`
	MaxMsgs     int64            `json:"max_msgs"`
	MaxBytes    int64            `json:"max_bytes"`
	MaxAge      float64          `json:"max_age_seconds"`
	FirstSeq    uint64           `json:"first_seq"`
	LastSeq     uint64           `json:"last_seq"`
	LostMsgs    int              `json:"lost_msgs,omitempty"` // unreadable after damage
	GroupCommit GroupCommit      `json:"group_commit"`
	Unavailable string           `json:"unavailable,omitempty"`
	Consumers   []ConsumerStatus `json:"consumers"`
}

// ConsumerStatus is a consumer.
type ConsumerStatus struct {
	Name   string `json:"name"`
	InFile bool   `json:"in_file"`
	// Lag is what is stored for the consumer and not acknowledged as far as the
	// server counts it: NumPending + NumAckPending. A message that used up
	// max_deliver is in neither; OldestUnacknowledged still shows it.
	Lag            uint64 `json:"lag"`
	NumPending     uint64 `json:"num_pending"`
	NumAckPending  int    `json:"num_ack_pending"`
	NumRedelivered int    `json:"num_redelivered"`
	NumWaiting     int    `json:"num_waiting"` // pull requests that wait
	// OldestUnacknowledged is the age of the oldest message stored for the
	// consumer and not acknowledged, in seconds; absent when there is none.
	OldestUnacknowledged *float64 `json:"oldest_unacknowledged_seconds,omitempty"`
	Paused               bool     `json:"paused,omitempty"`
	Unavailable          string   `json:"unavailable,omitempty"`
}
