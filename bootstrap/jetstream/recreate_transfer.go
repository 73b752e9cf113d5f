// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// chunkTimeout is how long the server may take for one chunk.
	chunkTimeout  = time.Minute
	snapshotChunk = 32 << 10
	// snapshotWindow is how far the server may read ahead. It waits 5 s for an
	// acknowledgement only, so chunks are acknowledged when they arrive.
	snapshotWindow = 4 << 20
	readAhead      = 1024
	// restoreStart is less than the 5 s after which a restore without data ends.
	restoreStart = 4 * time.Second
)

// snapshot is a backup of a stream as the server sends it.
type snapshot struct {
	chunks chan []byte
	failed chan error
	rest   []byte
	stop   func()
}

// openSnapshot starts a backup of the stream and of its consumers.
func (c *Client) openSnapshot(ctx context.Context, account, stream string, consumers bool) (*snapshot, error) {
	nc, err := c.conn(account)
	if err != nil {
		return nil, err
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &snapshot{chunks: make(chan []byte, readAhead), failed: make(chan error, 1)}
	s.stop = func() {
		cancel()
		// The connection may be gone by now, and the subscription with it.
		_ = sub.Unsubscribe()
	}
	req := map[string]any{
		"deliver_subject": inbox, "no_consumers": !consumers,
		"chunk_size": snapshotChunk, "window_size": snapshotWindow,
	}
	if err := c.request(ctx, account, "STREAM.SNAPSHOT."+stream, req, &struct{}{}); err != nil {
		s.stop()
		return nil, err
	}
	go s.receive(ctx, nc, sub)
	return s, nil
}

// receive ends with the snapshot, or when it is stopped.
func (s *snapshot) receive(ctx context.Context, nc *nats.Conn, sub *nats.Subscription) {
	defer close(s.chunks)
	for {
		wait, cancel := context.WithTimeout(ctx, chunkTimeout)
		msg, err := sub.NextMsgWithContext(wait)
		cancel()
		if err != nil {
			s.failed <- fmt.Errorf("read backup: %w", err)
			return
		}
		if len(msg.Data) == 0 {
			if status := msg.Header.Get("Status"); status != "" && status != "204" {
				s.failed <- fmt.Errorf("read backup: %s %s", status, msg.Header.Get("Description"))
			}
			return
		}
		select {
		case s.chunks <- msg.Data:
		case <-ctx.Done():
			return
		}
		if msg.Reply != "" {
			if err := nc.Publish(msg.Reply, nil); err != nil {
				s.failed <- fmt.Errorf("read backup: %w", err)
				return
			}
		}
	}
}

// Read implements io.Reader. A backup that was cut short has no end entry, so
// the end of the data is left to whoever reads the entries.
func (s *snapshot) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		chunk, ok := <-s.chunks
		if !ok {
			select {
			case err := <-s.failed:
				return 0, err
			default:
				return 0, errEndOfBackup
			}
		}
		s.rest = chunk
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// openRestore starts to make a stream from a backup. send hands over one chunk;
// nothing at all says that it was the last.
func (c *Client) openRestore(ctx context.Context, account string, config map[string]any) (send func([]byte) error, err error) {
	var answer struct {
		Subject string `json:"deliver_subject"`
	}
	name, _ := config["name"].(string)
	if err := c.request(ctx, account, "STREAM.RESTORE."+name, map[string]any{"config": config}, &answer); err != nil {
		return nil, err
	}
	if answer.Subject == "" {
		return nil, errors.New("the server does not say where to send the backup")
	}
	return func(chunk []byte) error {
		nc, err := c.conn(account)
		if err != nil {
			return err
		}
		if chunk == nil {
			ctx = context.WithoutCancel(ctx)
		}
		wait, cancel := context.WithTimeout(ctx, chunkTimeout)
		defer cancel()
		msg, err := nc.RequestWithContext(wait, answer.Subject, chunk)
		// In a cluster it takes a moment until the way to the leader is known.
		for end := time.Now().Add(restoreStart); errors.Is(err, nats.ErrNoResponders) && time.Now().Before(end); {
			if err := pauseFor(wait, drainStep); err != nil {
				return err
			}
			msg, err = nc.RequestWithContext(wait, answer.Subject, chunk)
		}
		if err != nil || len(msg.Data) == 0 {
			return err
		}
		return decode(msg.Data, &struct{}{})
	}, nil
}

// transfer makes the stream of config from a backup of another. edit is called
// with each entry, the end included, and returns what to write instead; first
// comes the state, whose number of consumers has to be that of those written.
func (c *Client) transfer(ctx context.Context, account, from string, consumers bool, config map[string]any, edit func(entry) ([]entry, error)) error {
	in, err := c.openSnapshot(ctx, account, from, consumers)
	if err != nil {
		return fmt.Errorf("read stream %q: %w", from, err)
	}
	defer in.stop()
	archive, err := newArchiveReader(in)
	if err != nil {
		return fmt.Errorf("read stream %q: %w", from, err)
	}
	send, err := c.openRestore(ctx, account, config)
	if err != nil {
		return fmt.Errorf("write stream %q: %w", config["name"], err)
	}
	if err := rewrite(archive, send, edit); err != nil {
		// Otherwise the server waits for more, and the name stays taken. It answers
		// with the error that is returned already.
		_ = send(nil)
		return fmt.Errorf("copy stream %q to %q: %w", from, config["name"], err)
	}
	if err := send(nil); err != nil {
		return fmt.Errorf("write stream %q: %w", config["name"], err)
	}
	return nil
}

func rewrite(archive *archiveReader, send func([]byte) error, edit func(entry) ([]entry, error)) error {
	w, err := newArchiveWriter(send)
	if err != nil {
		return err
	}
	for {
		e, err := archive.next()
		if err != nil {
			return err
		}
		edited, err := edit(e)
		if err != nil {
			return err
		}
		for _, e := range edited {
			if err := w.write(e); err != nil {
				return err
			}
		}
		if e.isEnd() {
			return w.close()
		}
	}
}

var errEndOfBackup = errors.New("the backup is not complete")

// consumerName returns the consumer that an entry of a backup holds.
func consumerName(e entry) (string, bool) {
	if e.seq != 0 {
		return "", false
	}
	return strings.CutPrefix(e.name, "consumers/")
}

// snapshotState is the entry that leads a backup.
func stateEntry(e entry) (map[string]any, error) {
	if e.name != "state.json" {
		return nil, errNoArchive
	}
	var state map[string]any
	return state, unmarshal(e.body, &state)
}

func withState(e entry, state map[string]any) (entry, error) {
	body, err := json.Marshal(state)
	e.body, e.headerSize = body, 0
	return e, err
}
