// SPDX-License-Identifier: Apache-2.0

package loadtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	// StreamPrefix begins the name of each scratch stream.
	StreamPrefix = "HOLDFAST_BENCH_"
	// subjectPrefix begins the subjects of each scratch stream.
	subjectPrefix = "holdfast.bench."
	// mark is the metadata key of what this package has made.
	mark = "holdfast.bench"
	// staleAfter is the age at which nobody uses a scratch stream any more.
	staleAfter = 10 * time.Minute
	// keepFor is the age at which messages of a left-over go.
	keepFor = time.Hour
	// ackWait is longer than a run may be stuck: a second delivery would count twice.
	ackWait = 2 * answerLimit
	// consumerName is the consumer of each scratch stream.
	consumerName = "workers"
)

// ErrLeftOver means that something of a run could not be removed.
var ErrLeftOver = errors.New("something is left behind")

// Wish is the scratch stream that a load needs.
type Wish struct {
	WorkQueue bool
	MaxBytes  int64
}

// Place is a scratch stream and its consumer.
type Place struct {
	Stream   string
	Consumer string
	// Subject begins the subjects that the stream stores; a token more makes one.
	Subject string
}

// Scratch makes the stream and the consumer of a run and removes them.
type Scratch interface {
	// Make leaves nothing behind when it fails.
	Make(ctx context.Context, w Wish) (Place, error)
	Remove(ctx context.Context, p Place) error
}

// Direct makes scratch streams as any client makes a stream. The node does not treat
// them as declared ones, unless it is asked to.
type Direct struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// NewDirect connects to the target; Close ends the connection.
func NewDirect(t Target) (*Direct, error) {
	nc, js, err := t.connect()
	if err != nil {
		return nil, err
	}
	return &Direct{nc: nc, js: js}, nil
}

// Close ends the connection.
func (d *Direct) Close() { d.nc.Close() }

// Make removes what killed runs have left, and makes a stream and a consumer.
func (d *Direct) Make(ctx context.Context, w Wish) (Place, error) {
	if err := d.sweep(ctx); err != nil {
		return Place{}, err
	}
	if err := d.checkRoom(ctx, w); err != nil {
		return Place{}, err
	}
	id := strings.ToLower(rand.Text())[:8]
	p := Place{Stream: StreamPrefix + id, Consumer: consumerName, Subject: subjectPrefix + id}
	stream := jetstream.StreamConfig{
		Name:        p.Stream,
		Description: "scratch stream of `holdfast bench`, removed at its end",
		Subjects:    []string{p.Subject + ".>"},
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		MaxBytes:    w.MaxBytes,
		MaxAge:      keepFor,
		Replicas:    1,
		// As a declared stream has it, which the node hands batches to.
		AllowAtomicPublish: true,
		Metadata:           map[string]string{mark: "scratch"},
	}
	if w.WorkQueue {
		stream.Retention = jetstream.WorkQueuePolicy
	}
	s, err := d.js.CreateStream(ctx, stream)
	if errors.As(err, new(jetstream.JetStreamError)) {
		return Place{}, diag.Fail(diag.CodeNoRoom, fmt.Errorf("create scratch stream %q: %w", p.Stream, err),
			fmt.Sprintf("the account needs room for one more stream of %s, and no stream of its own on %s; "+
				"choose another with --account, or less with --space", size(w.MaxBytes), stream.Subjects[0]))
	}
	if err == nil {
		_, err = s.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: p.Consumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait})
	}
	if err != nil {
		// Without an answer the stream may be there.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		return Place{}, errors.Join(fmt.Errorf("create scratch stream %q: %w", p.Stream, err), d.Remove(ctx, p))
	}
	return p, nil
}

// Remove removes the stream, and its consumer with it.
func (d *Direct) Remove(ctx context.Context, p Place) error {
	if err := d.js.DeleteStream(ctx, p.Stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return diag.Fail("", fmt.Errorf("%w: remove scratch stream %q: %w", ErrLeftOver, p.Stream, err),
			fmt.Sprintf("the next run removes it, when it is older than %v; or now: `holdfast nats stream rm %s`", staleAfter, p.Stream))
	}
	return nil
}

// checkRoom refuses what does not fit into the limit of the account.
func (d *Direct) checkRoom(ctx context.Context, w Wish) error {
	info, err := d.js.AccountInfo(ctx)
	if err != nil {
		return fmt.Errorf("read the limits of the account: %w", err)
	}
	if info.Limits.MaxStore < 0 {
		return nil
	}
	left := info.Limits.MaxStore - int64(max(info.ReservedStore, info.Store))
	if left < w.MaxBytes {
		return diag.Fail(diag.CodeNoRoom,
			fmt.Errorf("the scratch stream needs %s, and the account has %s of its %s left", size(w.MaxBytes), size(max(left, 0)), size(info.Limits.MaxStore)),
			"take less with --space, another account with --account, or raise limits.disk of the account")
	}
	return nil
}

// leftOver is true for a scratch stream that no run uses any more. Its age is by the
// node's clock, on both sides: that of this program may be another.
func leftOver(info *jetstream.StreamInfo) bool {
	own := strings.HasPrefix(info.Config.Name, StreamPrefix) && info.Config.Metadata[mark] != ""
	return own && info.TimeStamp.Sub(info.Created) > staleAfter
}

// sweep removes what killed runs have left.
func (d *Direct) sweep(ctx context.Context) error {
	streams := d.js.ListStreams(ctx)
	for info := range streams.Info() {
		if !leftOver(info) {
			continue
		}
		if err := d.Remove(ctx, Place{Stream: info.Config.Name}); err != nil {
			return err
		}
	}
	if err := streams.Err(); err != nil {
		return fmt.Errorf("look for scratch streams of killed runs: %w", err)
	}
	return nil
}

func size(n int64) string { return humanize.IBytes(uint64(n)) }
