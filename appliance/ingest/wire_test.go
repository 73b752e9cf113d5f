// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// drip is a connection that gives what the server sent in pieces.
type drip struct {
	net.Conn
	pieces [][]byte
}

func (d *drip) Read(b []byte) (int, error) {
	if len(d.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, d.pieces[0])
	if d.pieces[0] = d.pieces[0][n:]; len(d.pieces[0]) == 0 {
		d.pieces = d.pieces[1:]
	}
	return n, nil
}

type text struct{ Subject, Reply, Header, Payload string }

func readAll(t testing.TB, pieces [][]byte) (out []text, pings int, err error) {
	t.Helper()
	w := &wire{conn: &drip{pieces: pieces}, chunk: make([]byte, chunkSize)}
	var frames []frame
	for {
		var pinged bool
		frames, pinged, err = w.read(frames[:0])
		if pinged {
			pings++
		}
		for _, f := range frames {
			out = append(out, text{string(f.subject), string(f.reply), string(f.header), string(f.payload)})
		}
		if errors.Is(err, io.EOF) {
			return out, pings, nil
		}
		if err != nil {
			return out, pings, err
		}
	}
}

func TestReadTakesMessagesHoweverTheyAreCut(t *testing.T) {
	big := strings.Repeat("x", 3*chunkSize)
	stream := "MSG a.b 7 5\r\nhello\r\n" +
		"PING\r\n" +
		"MSG a.c 7 _inbox.1 0\r\n\r\n" +
		"HMSG a.d 7 _inbox.2 18 21\r\nNATS/1.0\r\nA: b\r\n\r\n!!\r\r\n" +
		"+OK\r\nPONG\r\nINFO {}\r\n" +
		"MSG a.e 7 196608\r\n" + big + "\r\n" +
		"MSG a.f  7   1\r\n\r\r\n"
	want := []text{
		{"a.b", "", "", "hello"}, {"a.c", "_inbox.1", "", ""},
		{"a.d", "_inbox.2", "NATS/1.0\r\nA: b\r\n\r\n", "!!\r"}, {"a.e", "", "", big}, {"a.f", "", "", "\r"},
	}
	for _, size := range []int{1, 2, 7, 100, len(stream)} {
		var pieces [][]byte
		for b := []byte(stream); len(b) > 0; {
			n := min(size, len(b))
			pieces, b = append(pieces, b[:n]), b[n:]
		}
		got, pings, err := readAll(t, pieces)
		if err != nil || pings != 1 {
			t.Fatalf("pieces of %d: got %d pings, error %v", size, pings, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pieces of %d (-want +got):\n%.2000s", size, diff)
		}
	}
}

func TestReadRefusesWhatIsNotTheProtocol(t *testing.T) {
	for _, bad := range []string{
		"MSG a 1\r\n", "MSG a x 1\r\nx\r\n", "MSG a 1 -1\r\n\r\n", "MSG a 1 r 2 1 3\r\nx\r\n", "MSG a 1 99999999999\r\n",
		"HMSG a 1 5\r\nxxxxx\r\n", "HMSG a 1 9 5\r\nxxxxx\r\n", "MSG a 1 1\r\nxyz\r\n", "MSG a 0 1\r\nx\r\n", "-ERR 'Stale Connection'\r\n",
	} {
		if got, _, err := readAll(t, [][]byte{[]byte(bad)}); err == nil {
			t.Errorf("%q: got %v and no error", bad, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("MSG a.b 7 5\r\nhello\r\nHMSG a.d 7 r 12 14\r\nNATS/1.0\r\n\r\n!!\r\n"), uint8(3))
	f.Add([]byte("PING\r\nMSG a 1 0\r\n\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		whole, _, err := readAll(t, [][]byte{bytes.Clone(b)})
		var pieces [][]byte
		for rest := bytes.Clone(b); len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		cut, _, cutErr := readAll(t, pieces)
		if diff := cmp.Diff(whole, cut); diff != "" || (err == nil) != (cutErr == nil) {
			t.Errorf("cut into pieces: errors %v and %v, messages (-whole +cut):\n%s", err, cutErr, diff)
		}
	})
}

func TestPublishPutsFieldsBeforeTheHeader(t *testing.T) {
	for _, c := range []struct{ fields, header, payload, want string }{
		{"", "", "hi", "PUB p.s r 2\r\nhi\r\n"},
		{"", "NATS/1.0\r\nA: b\r\n\r\n", "hi", "HPUB p.s r 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n"},
		{"X: y\r\n", "", "hi", "HPUB p.s r 18 20\r\nNATS/1.0\r\nX: y\r\n\r\nhi\r\n"},
		{"X: y\r\n", "NATS/1.0\r\nA: b\r\n\r\n", "", "HPUB p.s r 24 24\r\nNATS/1.0\r\nX: y\r\nA: b\r\n\r\n\r\n"},
	} {
		w := &wire{}
		w.publish("p.", []byte("s"), []byte("r"), []byte(c.fields), []byte(c.header), []byte(c.payload))
		if got := string(w.out); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestExamineSaysWhatMustGoAlone(t *testing.T) {
	for _, c := range []struct {
		header string
		want   traits
	}{
		{"", traits{}},
		{"NATS/1.0\r\n\r\n", traits{}},
		{"NATS/1.0\r\nTrace: 1\r\nX-Nats-Other: 2\r\n\r\n", traits{}},
		{"NATS/1.0\r\nNats-Msg-Id: 7\r\n\r\n", traits{msgID: []byte("7")}},
		{"NATS/1.0\r\nNats-Msg-Id:7\r\n\r\n", traits{msgID: []byte("7")}},
		{"NATS/1.0\r\nNats-Msg-Id: \r\n\r\n", traits{alone: true}},
		{"NATS/1.0\r\nNats-Msg-Id: 7\r\nNats-Msg-Id: 8\r\n\r\n", traits{alone: true, msgID: []byte("7")}},
		{"NATS/1.0\r\nnats-msg-id: 7\r\n\r\n", traits{alone: true}},
		{"NATS/1.0\r\nNats-Expected-Last-Sequence: 7\r\n\r\n", traits{alone: true}},
		{"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n", traits{alone: true}},
		{"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n", traits{alone: true}},
		{"NATS/1.0\r\nNats-Batch-Id: x\r\nNats-Batch-Sequence: 1\r\n\r\n", traits{ownBatch: true}},
		{"NATS/1.0\r\nNats-Batch-Sequence: 1\r\n\r\n", traits{alone: true}},
		{"NATS/1.0\r\nNats-Batch-Id: _hf-1\r\nNats-Batch-Sequence: 1\r\n\r\n", traits{ownBatch: true, copied: true}},
		{"NATS/1.0 503\r\n\r\n", traits{alone: true}},
		{"NATS/1.0\r\nno colon\r\n\r\n", traits{alone: true}},
		{"NATS/1.0\r\nA: b\r\n", traits{alone: true}},
		{"NATS/1.0\r\nA: b\r\n\r\nmore", traits{alone: true}},
	} {
		got := examine([]byte(c.header))
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(traits{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.header, diff)
		}
	}
}

func TestWithoutBatchKeepsTheRest(t *testing.T) {
	for header, want := range map[string]string{
		"NATS/1.0\r\nNats-Batch-Id: _hf-1\r\nNats-Batch-Sequence: 1\r\n\r\n":                                         "",
		"NATS/1.0\r\nNats-Batch-Id: _hf-1\r\nA: b\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\nC: d\r\n\r\n": "NATS/1.0\r\nA: b\r\nC: d\r\n\r\n",
	} {
		if got := string(withoutBatch([]byte(header))); got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
}

func TestMappingsLeadToTheLaneAndBack(t *testing.T) {
	got := Mappings("secret", []Lane{{Stream: "A", Subjects: []string{"a", "b.*.c.*", "d.>"}}, {Stream: "B", Subjects: []string{"e"}}})
	want := []Mapping{
		{"_hf.out.secret.>", ">"},
		{"a", "_hf.in.A.a"},
		{"b.*.c.*", "_hf.in.A.b.{{wildcard(1)}}.c.{{wildcard(2)}}"},
		{"d.>", "_hf.in.A.d.>"},
		{"e", "_hf.in.B.e"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mappings (-want +got):\n%s", diff)
	}
	if got := Mappings("secret", nil); got != nil {
		t.Errorf("mappings for no lanes: got %v, want none", got)
	}
}
