// SPDX-License-Identifier: Apache-2.0

package ingest

import "bytes"

// headerStart is the first line of a message header.
const headerStart = "NATS/1.0\r\n"

const (
	batchIDHeader  = "Nats-Batch-Id"
	batchSeqHeader = "Nats-Batch-Sequence"
	batchEndHeader = "Nats-Batch-Commit"
	msgIDHeader    = "Nats-Msg-Id"
)

// traits are what a header means for how its message may go.
type traits struct {
	// alone: it asks the server for something that only a message by itself can have.
	alone bool
	// ownBatch: it is part of a batch of the client's own.
	ownBatch bool
	// copied: it was in a batch of ingest, and somebody sent it on with its headers.
	copied bool
	// msgID is for the detection of duplicates; nil without one.
	msgID []byte
}

// examine looks through a header. A header that is not in the form that clients write
// goes alone: what it means is the server's to say.
func examine(header []byte) traits {
	if len(header) == 0 {
		return traits{}
	}
	rest, ok := bytes.CutPrefix(header, []byte(headerStart))
	if !ok {
		return traits{alone: true} // with a status, too
	}
	var t traits
	batch := false
	for {
		i := bytes.Index(rest, crlf)
		if i < 0 {
			return traits{alone: true}
		}
		line := rest[:i]
		rest = rest[i+len(crlf):]
		if len(line) == 0 {
			t.alone = t.alone || len(rest) > 0 || batch && !t.ownBatch
			return t
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return traits{alone: true}
		}
		// The server looks names up as they are written, wherever they stand.
		if !hasFold(name, "nats-") {
			continue
		}
		switch string(name) {
		case msgIDHeader:
			if id := bytes.TrimSpace(value); t.msgID == nil && len(id) > 0 {
				t.msgID = id
			} else {
				t.alone = true
			}
		case batchIDHeader:
			if t.ownBatch = true; bytes.HasPrefix(bytes.TrimSpace(value), []byte(batchPrefix)) {
				t.copied = true
			}
		case batchSeqHeader, batchEndHeader:
			batch = true
		default:
			t.alone = true
		}
	}
}

// hasFold reports whether b begins with prefix, which is in lower case.
func hasFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && bytes.EqualFold(b[:len(prefix)], []byte(prefix))
}

// withoutBatch returns a header without the fields of a batch; nil when nothing is left.
func withoutBatch(header []byte) []byte {
	out := append([]byte(nil), headerStart...)
	rest := header[len(headerStart):]
	for {
		i := bytes.Index(rest, crlf)
		if i <= 0 {
			break
		}
		line := rest[:i+len(crlf)]
		rest = rest[i+len(crlf):]
		name, _, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case batchIDHeader, batchSeqHeader, batchEndHeader:
		default:
			out = append(out, line...)
		}
	}
	if len(out) == len(headerStart) {
		return nil
	}
	return append(out, crlf...)
}
