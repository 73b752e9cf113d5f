// SPDX-License-Identifier: Apache-2.0

package acks

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What all designs work on.
const (
	stream   = "S"
	consumer = "C"
	subject  = "orders.a"
	subjects = "orders.>"
	// forward is where a client's message leaves the mappings of the account.
	forward = "_hf.out.bench."
	held    = "_hf.ack."
)

// Design is one way to get rid of what is acknowledged.
type Design struct {
	Key  string // in a sample
	Name string // for people

	// relaxed does without the fsync before each answer.
	relaxed   bool
	retention jetstream.RetentionPolicy
	// filter is that of the purges; empty: purges by sequence alone.
	filter string
	beside beside
}

// beside is what runs next to the server until ctx ends. It calls fail when something
// stops it earlier.
type beside func(ctx context.Context, nc *nats.Conn, filter string, fail context.CancelCauseFunc) (wait func(), err error)

// Stock is what the others are compared with: each acknowledgement removes its message,
// with an fsync of its own.
func Stock() Design {
	return Design{Key: "stock", Name: "per-ack removal", retention: jetstream.WorkQueuePolicy}
}

// Others are the designs beside it. The last is no candidate: it loses what a power cut
// finds in memory.
func Others() []Design {
	return []Design{
		{Key: "trim", Name: "limits, trimmed by seq", retention: jetstream.LimitsPolicy, beside: trim},
		{Key: "trim filter", Name: "limits, trimmed by filter and seq", retention: jetstream.LimitsPolicy, filter: subjects, beside: trim},
		{Key: "prefix filter", Name: "work queue, acks held, prefix purged by filter and seq", retention: jetstream.WorkQueuePolicy, filter: subjects, beside: hold},
		{Key: "prefix", Name: "work queue, acks held, prefix purged by seq", retention: jetstream.WorkQueuePolicy, beside: hold},
		{Key: "no fsync", Name: "per-ack removal without fsync", retention: jetstream.WorkQueuePolicy, relaxed: true},
	}
}

// ServerFile is the configuration of the design's server. All have the same mappings but
// for the acknowledgements: a mapping costs something with every message of a client.
func (d Design) ServerFile(store string, port int) string {
	acks := "$JS.ACK.no.such.>"
	if d.retention == jetstream.WorkQueuePolicy && d.beside != nil {
		acks = "$JS.ACK." + stream + "." + consumer + ".>"
	}
	sync := "always"
	if d.relaxed {
		sync = "2m"
	}
	return fmt.Sprintf(`server_name: bench
listen: "127.0.0.1:%d"
jetstream { store_dir: %q, sync_interval: %s }
no_auth_user: bench
accounts {
    BENCH {
        jetstream: enabled
        users: [{user: bench, password: bench}]
        mappings { %q: %q, %q: ">" }
    }
}
`, port, store, sync, acks, held+stream+"."+consumer+".>", forward+">")
}
