// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
)

const (
	// headerPart numbers the messages of one set of objects: 1/3, 2/3, 3/3.
	headerPart = "Holdfast-Part"
	formatPart = "%d/%d"
	// maxParts leaves the stream most of its room for records.
	maxParts = 100
)

func objectsOf(id uint64) string { return subjectObjects + strconv.FormatUint(id, 10) }

// putObjects stores the objects of a revision, compressed and in as many messages
// as it takes: those of 10,000 streams can be more than one may hold. It returns
// the sequence of the first, 0 when there would be too many: with a max_payload
// that small drift is not told from other differences, and the records stay.
func (r Revisions) putObjects(ctx context.Context, id uint64, objects map[string]string) (first uint64, err error) {
	nc, err := r.client.conn(r.account)
	if err != nil {
		return 0, err
	}
	data, err := packObjects(objects)
	if err != nil {
		return 0, fmt.Errorf("encode objects: %w", err)
	}
	size := int(nc.MaxPayload() / 4) // see readBatch
	parts := (len(data) + size - 1) / size
	if parts > maxParts {
		return 0, nil
	}
	for i := range parts {
		part := data[i*size : min((i+1)*size, len(data))]
		seq, err := r.publish(ctx, objectsOf(id), part, nats.Header{headerPart: {fmt.Sprintf(formatPart, i+1, parts)}})
		if err != nil {
			return 0, fmt.Errorf("store objects: %w", err)
		}
		if i == 0 {
			first = seq
		}
	}
	return first, nil
}

// objectSet collects the parts of one revision's objects. They may be there more than
// once, for its beginning and its end, and cut short; the last whole one counts.
type objectSet struct {
	parts []byte
	next  int
	whole []byte
}

func (s *objectSet) add(m revisionMessage) {
	var part, of int
	_, err := fmt.Sscanf(m.header.Get(headerPart), formatPart, &part, &of)
	if part == 1 {
		s.parts, s.next = nil, 1
	}
	if err != nil || part != s.next {
		s.next = 0 // what came before it is gone
		return
	}
	s.parts, s.next = append(s.parts, m.data...), s.next+1
	if part == of {
		s.whole, s.next = s.parts, 0
	}
}

// objects returns what was collected. What can't be read is as good as not there:
// then no difference counts as drift.
func (s *objectSet) objects() map[string]string {
	objects, err := unpackObjects(s.whole)
	if err != nil {
		return nil
	}
	return objects
}

// forgetObjects removes the objects of the revisions before id, and those that id
// had before the message first.
func (r Revisions) forgetObjects(ctx context.Context, id, first uint64) error {
	var info struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	err := r.client.request(ctx, r.account, "STREAM.INFO."+revisionStream, map[string]any{"subjects_filter": subjectObjects + "*"}, &info)
	if err != nil {
		return fmt.Errorf("list objects of older revisions: %w", err)
	}
	for subject := range info.State.Subjects {
		req := map[string]any{"filter": subject}
		switch old := revisionOf(subject); {
		case old > id:
			continue
		case old == id:
			req["seq"] = first
		}
		var answer struct{}
		if err := r.client.request(ctx, r.account, "STREAM.PURGE."+revisionStream, req, &answer); err != nil {
			return fmt.Errorf("remove objects of older revisions: %w", err)
		}
	}
	return nil
}

func packObjects(objects map[string]string) ([]byte, error) {
	if objects == nil {
		objects = map[string]string{} // none, in contrast to not recorded
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(objects); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func unpackObjects(data []byte) (map[string]string, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var objects map[string]string
	if err := json.NewDecoder(z).Decode(&objects); err != nil {
		return nil, err
	}
	return objects, nil
}
