// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// The server's log calls behind the client's prefix. They are pinned by
// TestEveryReasonIsCounted.
const (
	formatPublish   = "Publish Violation - Subject %q"
	formatReply     = "Publish Violation - Reply %q"
	formatPayload   = "%s: %d vs %d"
	formatHandshake = "TLS handshake error: %v%s"
	formatAuth      = "%v - %s"
	// The server puts these two together itself, so that the subject is in the
	// format.
	prefixSubscribe  = "Subscription Violation - Subject "
	prefixTokens     = "Subscription Violation Too Many Tokens - Subject "
	formatConnection = "%s - %s%s" // with the client itself as first argument
)

// handshake is what the server says of a TLS handshake that did not work.
type handshake struct {
	problem string
	left    bool // the other end went away
}

// mostHandshakes bounds those that no sweep finds.
const mostHandshakes = 1000

// fromLog takes an error that the server logs, and reports whether it is a
// refusal that is counted. It must not call the server: the caller may hold its
// locks.
func (r *refusals) fromLog(format string, args []any) bool {
	if format == formatConnection {
		return r.connectionLimit(args)
	}
	c, ok := parseLogClient(format)
	if !ok {
		return false
	}
	var reason, example string
	switch {
	case c.text == formatPublish && len(args) == 1:
		// The server names what a mapping made of the subject.
		reason, example = ReasonPublish, r.names.published(subjectOf(args[0]))
	case c.text == formatReply && len(args) == 1:
		reason, example = ReasonReply, subjectOf(args[0])
	case strings.HasPrefix(c.text, prefixSubscribe):
		reason, example = ReasonSubscribe, quotedAfter(c.text, prefixSubscribe)
	case strings.HasPrefix(c.text, prefixTokens):
		reason, example = ReasonSubscribe, quotedAfter(c.text, prefixTokens)
	case c.text == server.ErrTooManySubs.Error():
		reason, example = ReasonSubscriptions, c.address
	case c.text == formatPayload && len(args) == 3 && args[0] == server.ErrMaxPayload.Error():
		reason, example = ReasonPayload, fmt.Sprintf("%s: %v bytes, at most %v", c.address, args[1], args[2])
	case c.text == formatHandshake && len(args) == 2:
		r.noteHandshake(c.id, args)
		r.wake()
		return true
	case c.text == server.ErrAuthentication.Error(), c.text == server.ErrTooManyAccountConnections.Error(),
		c.text == formatAuth && len(args) == 2 && fmt.Sprint(args[0]) == server.ErrAuthentication.Error():
		r.wake()
		return true
	default:
		return false
	}
	r.add(refusalKey{c.account, c.user, reason}, false, r.now(), example)
	return true
}

// connectionLimit takes the log calls that the server makes once a minute only.
func (r *refusals) connectionLimit(args []any) bool {
	if len(args) != 3 {
		return false
	}
	text, _ := args[1].(string)
	for _, err := range []error{server.ErrTooManyAccountConnections, server.ErrTooManyConnections} {
		if text == err.Error() || strings.HasPrefix(text, err.Error()+" - Account:") {
			r.wake()
			return true
		}
	}
	return false
}

func (r *refusals) noteHandshake(id uint64, args []any) {
	var h handshake
	h.problem = clip(fmt.Sprintf("%v%s", args[0], args[1]))
	if err, ok := args[0].(error); ok {
		h.left = errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.handshakes) >= mostHandshakes {
		clear(r.handshakes)
	}
	r.handshakes[id] = h
}

func subjectOf(arg any) string {
	b, _ := arg.([]byte)
	return string(b)
}

func quotedAfter(text, prefix string) string {
	quoted, err := strconv.QuotedPrefix(strings.TrimPrefix(text, prefix))
	if err != nil {
		return ""
	}
	subject, _ := strconv.Unquote(quoted)
	return subject
}

// logClient is what the server puts in front of a client's log lines:
//
//	127.0.0.1:50000 - cid:7 - "v1.55.0:go:name" - "A…/shop/jwt:U…" - text
//
// The first quoted part is chosen by the client; it and, before the client is
// known, the second may be absent.
type logClient struct {
	address       string
	id            uint64
	account, user string // public keys, or ""
	text          string
}

// parseLogClient reports whether a format is about a client or a leaf node.
func parseLogClient(format string) (logClient, bool) {
	var c logClient
	var ok bool
	if c.address, c.text, ok = strings.Cut(format, " - "); !ok {
		return c, false
	}
	var id string
	if id, c.text, ok = strings.Cut(c.text, " - "); !ok {
		return c, false
	}
	kind, number, _ := strings.Cut(id, ":")
	switch kind {
	case "cid", "wid", "mid", "mid_ws", "lid", "lid_ws":
	default:
		return c, false
	}
	// It was escaped for a format.
	c.address = strings.ReplaceAll(c.address, "%%", "%")
	var err error
	if c.id, err = strconv.ParseUint(number, 10, 64); err != nil {
		return c, false
	}
	label := ""
	for strings.HasPrefix(c.text, `"`) {
		quoted, err := strconv.QuotedPrefix(c.text)
		if err != nil {
			return c, false
		}
		label = quoted
		c.text = strings.TrimPrefix(c.text[len(quoted):], " - ")
	}
	label, _ = strconv.Unquote(label)
	account, _, _ := strings.Cut(label, "/")
	if nkeys.IsValidPublicAccountKey(account) {
		c.account = account
	}
	if i := strings.LastIndexByte(label, ':'); i >= 0 && nkeys.IsValidPublicUserKey(label[i+1:]) {
		c.user = label[i+1:]
	}
	return c, true
}
