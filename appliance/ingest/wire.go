// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nkeys"
)

// The wire is the client protocol of NATS over a connection inside the process. It
// is spoken here and not through nats.go because every message of every publisher
// passes twice: nats.go takes headers apart into maps, hands each message from
// goroutine to goroutine, and flushes from another one. See docs/adr/0007.

const (
	handshakeTimeout = 5 * time.Second
	// chunkSize is what is read at once. Messages are slices of a chunk, which is
	// freed with the last of them.
	chunkSize = 64 << 10
)

// frame is one message as it was delivered. The slices share a chunk and are never
// written to.
type frame struct {
	sid     int
	subject []byte
	reply   []byte
	header  []byte // with its first line and the empty one at its end; nil without
	payload []byte
}

func (f frame) size() int { return len(f.subject) + len(f.reply) + len(f.header) + len(f.payload) }

// wire is a connection after its handshake. One goroutine reads and another writes.
type wire struct {
	conn net.Conn

	chunk      []byte
	start, end int // of what is read and not parsed

	// Not flushed yet: what is for streams goes out before what is for publishers, which
	// the server writes to many connections.
	out, later []byte
}

// serverInfo is what the handshake needs of the server's greeting.
type serverInfo struct {
	Nonce      string `json:"nonce"`
	MaxPayload int    `json:"max_payload"`
}

// handshake makes conn a wire: it logs in and waits for the server to agree.
func handshake(conn net.Conn, token string, seed []byte) (*wire, serverInfo, error) {
	w := &wire{conn: conn, chunk: make([]byte, chunkSize)}
	var info serverInfo
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, info, err
	}
	line, err := w.line()
	if err != nil {
		return nil, info, fmt.Errorf("read greeting: %w", err)
	}
	text, ok := bytes.CutPrefix(line, []byte("INFO "))
	if !ok {
		return nil, info, fmt.Errorf("read greeting: got %q", line)
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, info, fmt.Errorf("read greeting: %w", err)
	}
	sig, err := sign(info.Nonce, seed)
	if err != nil {
		return nil, info, err
	}
	connect, err := json.Marshal(map[string]any{
		"jwt": token, "sig": sig, "name": "holdfast ingest", "lang": "go", "version": "1",
		"protocol": 1, "headers": true, "no_responders": true, "echo": false, "verbose": false, "pedantic": false,
	})
	if err != nil {
		return nil, info, fmt.Errorf("marshal login: %w", err)
	}
	w.out = append(w.out, "CONNECT "...)
	w.out = append(w.out, connect...)
	w.out = append(w.out, "\r\nPING\r\n"...)
	if err := w.flush(); err != nil {
		return nil, info, fmt.Errorf("log in: %w", err)
	}
	for {
		line, err := w.line()
		if err != nil {
			return nil, info, fmt.Errorf("log in: %w", err)
		}
		switch {
		case bytes.Equal(line, []byte("PONG")):
			return w, info, conn.SetDeadline(time.Time{})
		case bytes.HasPrefix(line, []byte("-ERR")):
			return nil, info, fmt.Errorf("log in: %s", line)
		}
	}
}

func sign(nonce string, seed []byte) (string, error) {
	kp, err := nkeys.FromSeed(seed)
	if err != nil {
		return "", fmt.Errorf("read seed: %w", err)
	}
	defer kp.Wipe()
	sig, err := kp.Sign([]byte(nonce))
	if err != nil {
		return "", fmt.Errorf("sign nonce: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sig), nil
}

// line returns the next line without its end; during the handshake only.
func (w *wire) line() ([]byte, error) {
	for {
		if i := bytes.Index(w.chunk[w.start:w.end], crlf); i >= 0 {
			line := w.chunk[w.start : w.start+i]
			w.start += i + len(crlf)
			return line, nil
		}
		if err := w.more(0); err != nil {
			return nil, err
		}
	}
}

// more reads at least one byte. need is the size of what is being parsed, where it
// is known.
func (w *wire) more(need int) error {
	if w.end == len(w.chunk) || need > len(w.chunk)-w.start {
		// Never reuse a chunk: messages point into it.
		rest := w.chunk[w.start:w.end]
		w.chunk = make([]byte, max(chunkSize, need, 2*len(rest)))
		w.start, w.end = 0, copy(w.chunk, rest)
	}
	n, err := w.conn.Read(w.chunk[w.end:])
	w.end += n
	if n > 0 {
		return nil
	}
	return err
}

var (
	crlf    = []byte("\r\n")
	msgOp   = []byte("MSG ")
	hmsgOp  = []byte("HMSG ")
	pingOp  = []byte("PING")
	errOp   = []byte("-ERR")
	errWire = errors.New("the server sent what is not its protocol")
)

// read waits for messages and appends all that have arrived to frames. pinged says
// that the server wants a sign of life.
func (w *wire) read(frames []frame) (_ []frame, pinged bool, err error) {
	for {
		before := len(frames)
		need := 0
		for w.start < w.end {
			f, used, want, ping, err := parse(w.chunk[w.start:w.end])
			if err != nil {
				return frames, pinged, err
			}
			if used == 0 {
				need = want
				break
			}
			w.start += used
			if pinged = pinged || ping; f.sid != 0 {
				frames = append(frames, f)
			}
		}
		if len(frames) > before || pinged {
			return frames, pinged, nil
		}
		if err := w.more(need); err != nil {
			return frames, pinged, err
		}
	}
}

// parse takes one protocol operation off b. used is 0 when b ends before it does;
// need is then how many bytes it takes, where that is known. f.sid is 0 when it is no
// message.
func parse(b []byte) (f frame, used, need int, ping bool, err error) {
	eol := bytes.Index(b, crlf)
	if eol < 0 {
		return f, 0, 0, false, nil
	}
	line, next := b[:eol], eol+len(crlf)
	switch {
	case bytes.HasPrefix(line, msgOp):
		return parseMsg(b, line[len(msgOp):], next, false)
	case bytes.HasPrefix(line, hmsgOp):
		return parseMsg(b, line[len(hmsgOp):], next, true)
	case bytes.Equal(line, pingOp):
		return f, next, 0, true, nil
	case bytes.HasPrefix(line, errOp):
		return f, 0, 0, false, fmt.Errorf("the server ended the connection: %s", line[len(errOp):])
	default: // PONG, INFO, +OK
		return f, next, 0, false, nil
	}
}

// parseMsg reads "subject sid [reply] [header bytes] bytes" and what follows it.
func parseMsg(b, args []byte, next int, hasHeader bool) (f frame, used, need int, ping bool, err error) {
	var parts [5][]byte
	n := 0
	for len(args) > 0 && n < len(parts) {
		i := bytes.IndexByte(args, ' ')
		if i < 0 {
			i = len(args)
		}
		if i > 0 {
			parts[n] = args[:i]
			n++
		}
		args = args[min(i+1, len(args)):]
	}
	numbers := 1
	if hasHeader {
		numbers = 2
	}
	if n < 2+numbers || n > 3+numbers || len(args) > 0 {
		return f, 0, 0, false, errWire
	}
	f.subject = parts[0]
	sid, ok := atoi(parts[1])
	if !ok || sid == 0 {
		return f, 0, 0, false, errWire
	}
	if n == 3+numbers {
		f.reply = parts[2]
	}
	total, ok := atoi(parts[n-1])
	if !ok {
		return f, 0, 0, false, errWire
	}
	head := 0
	if hasHeader {
		if head, ok = atoi(parts[n-2]); !ok || head > total {
			return f, 0, 0, false, errWire
		}
	}
	used = next + total + len(crlf)
	if len(b) < used {
		return frame{}, 0, used, false, nil
	}
	body := b[next : next+total]
	if !bytes.Equal(b[next+total:used], crlf) {
		return f, 0, 0, false, errWire
	}
	f.sid, f.payload = sid, body[head:]
	if head > 0 {
		f.header = body[:head]
	}
	return f, used, 0, false, nil
}

// atoi reads a number of at most nine digits.
func atoi(b []byte) (int, bool) {
	if len(b) == 0 || len(b) > 9 {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// subscribe, unsubscribe and publish are sent with the next flush.
func (w *wire) subscribe(sid int, subject string) {
	w.out = append(w.out, "SUB "...)
	w.out = append(w.out, subject...)
	w.out = append(w.out, ' ')
	w.out = strconv.AppendInt(w.out, int64(sid), 10)
	w.out = append(w.out, crlf...)
}

func (w *wire) unsubscribe(sid int) {
	w.out = append(w.out, "UNSUB "...)
	w.out = strconv.AppendInt(w.out, int64(sid), 10)
	w.out = append(w.out, crlf...)
}

// answer sends a message after all that is published before the next flush.
func (w *wire) answer(subject, header, payload []byte) {
	w.later = appendPublish(w.later, "", subject, nil, nil, header, payload)
}

// publish sends a message whose subject is prefix and subject, and whose header is
// header with fields put in front of its own. fields end with a line break each.
func (w *wire) publish(prefix string, subject, reply, fields, header, payload []byte) {
	w.out = appendPublish(w.out, prefix, subject, reply, fields, header, payload)
}

func appendPublish(b []byte, prefix string, subject, reply, fields, header, payload []byte) []byte {
	head := len(header)
	if len(fields) > 0 {
		if head == 0 {
			head = len(headerStart) + len(crlf)
		}
		head += len(fields)
	}
	if head > 0 {
		b = append(b, "HPUB "...)
	} else {
		b = append(b, "PUB "...)
	}
	b = append(b, prefix...)
	b = append(b, subject...)
	b = append(b, ' ')
	if len(reply) > 0 {
		b = append(b, reply...)
		b = append(b, ' ')
	}
	if head > 0 {
		b = strconv.AppendInt(b, int64(head), 10)
		b = append(b, ' ')
	}
	b = strconv.AppendInt(b, int64(head+len(payload)), 10)
	b = append(b, crlf...)
	switch {
	case len(fields) == 0:
		b = append(b, header...)
	case len(header) == 0:
		b = append(b, headerStart...)
		b = append(b, fields...)
		b = append(b, crlf...)
	default:
		b = append(b, headerStart...)
		b = append(b, fields...)
		b = append(b, header[len(headerStart):]...)
	}
	b = append(b, payload...)
	b = append(b, crlf...)
	return b
}

func (w *wire) pong() { w.out = append(w.out, "PONG\r\n"...) }

// mostKept is the largest buffer that is kept for the next flush.
const mostKept = 1 << 20

func (w *wire) flush() error {
	for _, b := range []*[]byte{&w.out, &w.later} {
		if len(*b) == 0 {
			continue
		}
		if _, err := w.conn.Write(*b); err != nil {
			return err
		}
		if *b = (*b)[:0]; cap(*b) > mostKept {
			*b = nil
		}
	}
	return nil
}
