// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// intent is what a recreation was asked for, and what it needs to go back. It
// stands in the metadata of the parked stream and of the copy.
type intent struct {
	// Config is the stream's configuration before it was parked.
	Config map[string]any `json:"config"`
	Set    map[string]any `json:"set"`
	// Consumers holds fields to set for consumers.
	Consumers map[string]map[string]any `json:"set_consumers,omitempty"`
	// Paused holds until when consumers were paused before the recreation did it.
	Paused map[string]string `json:"paused,omitempty"`
}

// record is the last thing that is written to a copy. It makes the copy complete:
// what it says and the messages before it are all there was.
type record struct {
	intent
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	Messages uint64 `json:"messages"`
	// Stored is how many messages the stream had when the copy was begun.
	Stored uint64 `json:"-"`
	// complete is false for what salvage made up.
	complete bool
	// Bytes is room enough for the messages in any storage.
	Bytes int64 `json:"bytes"`
	// Carried are the consumers, in the order of the backup.
	Carried []carried `json:"carried"`
}

// carried is a consumer with its exact position: which messages are acknowledged,
// which were delivered, and how often.
type carried struct {
	Name   string         `json:"name"`
	Config map[string]any `json:"config"`
	State  position       `json:"state"`
}

// position is a consumer's state as a backup has it.
type position struct {
	Delivered   pair                       `json:"delivered"`
	AckFloor    pair                       `json:"ack_floor"`
	Pending     map[uint64]json.RawMessage `json:"pending,omitempty"`
	Redelivered map[uint64]uint64          `json:"redelivered,omitempty"`
}

type pair struct {
	Consumer uint64 `json:"consumer_seq"`
	Stream   uint64 `json:"stream_seq"`
}

// needs reports whether a message that passes the consumer's filters is not yet
// acknowledged: the server's own rule (needAck), by which a message that used up
// max_deliver is needed.
func (p position) needs(seq uint64, ackPolicy any) bool {
	if _, tried := p.Redelivered[seq]; tried {
		return true
	}
	if seq <= p.AckFloor.Stream {
		return false
	}
	if ackPolicy != "explicit" || seq > p.Delivered.Stream {
		return true
	}
	_, pending := p.Pending[seq]
	return pending
}

// zipped makes a value small enough for metadata and messages.
func zipped(v any) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(v); err != nil {
		return nil, err
	}
	err := z.Close()
	return b.Bytes(), err
}

func unzip(data []byte, v any) error {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	return unmarshal(text, v)
}

func zipText(v any) (string, error) {
	b, err := zipped(v)
	return base64.StdEncoding.EncodeToString(b), err
}

func unzipText(text string, v any) error {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return unzip(b, v)
}

// recordSubject is where part i of n of a record is kept in the copy.
func recordSubject(stream string, i, n int) string {
	return fmt.Sprintf("%s.record.%d.%d", copySubject(stream), i, n)
}

// recordEntries are the messages that make a copy complete.
func (rec record) entries(stream string, partSize int, now int64) ([]entry, error) {
	data, err := zipped(rec)
	if err != nil {
		return nil, err
	}
	n := (len(data) + partSize - 1) / partSize
	parts := make([]entry, 0, n)
	for i := range n {
		parts = append(parts, entry{
			name: recordSubject(stream, i+1, n), time: now,
			seq: rec.Last + uint64(i) + 1, body: data[i*partSize : min((i+1)*partSize, len(data))],
		})
	}
	return parts, nil
}

var errNoRecord = errors.New("the copy is not complete")

// readRecord reads the record of a copy whose last message is last. It returns
// errNoRecord when the copy was cut short.
func (c *Client) readRecord(ctx context.Context, account, stream, copyName string, last uint64) (record, error) {
	var r record
	if last == 0 {
		return r, errNoRecord // the server takes no such sequence
	}
	subject, part, err := c.message(ctx, account, copyName, last)
	if code(err) == codeNoMessage {
		return r, errNoRecord
	}
	if err != nil {
		return r, fmt.Errorf("read copy of stream %q: %w", stream, err)
	}
	var i, n int
	tail, ok := strings.CutPrefix(subject, copySubject(stream)+".record.")
	if _, err := fmt.Sscanf(tail, "%d.%d", &i, &n); !ok || err != nil || i != n {
		return r, errNoRecord
	}
	data := part
	for back := 1; back < n; back++ {
		_, part, err := c.message(ctx, account, copyName, last-uint64(back))
		if err != nil {
			return r, fmt.Errorf("read copy of stream %q: %w", stream, err)
		}
		data = append(part, data...)
	}
	if err := unzip(data, &r); err != nil {
		return r, fmt.Errorf("read copy of stream %q: %w", stream, err)
	}
	r.complete = true
	return r, nil
}

// message reads one stored message.
func (c *Client) message(ctx context.Context, account, stream string, seq uint64) (subject string, data []byte, err error) {
	var got struct {
		Message struct {
			Subject string `json:"subject"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	err = c.request(ctx, account, "STREAM.MSG.GET."+stream, map[string]any{"seq": seq}, &got)
	return got.Message.Subject, got.Message.Data, err
}
