// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// serverLog is the server's logger. nats-server calls most of what it says a
// notice, a line for each stream among them, so notices go to DEBUG but for the
// few in noticeLevel. Debug and trace are switched off where it is set.
type serverLog struct {
	log      *slog.Logger
	names    Names
	recovery *recovery
	refused  func(format string, args []any) bool
	fatalf   func(format string, args ...any)
	limit    *repeats
	stalls   *stalls

	// braked is true while publishers are refused on purpose.
	braked      atomic.Bool
	writeErrors atomic.Uint64
}

func newServerLog(log *slog.Logger, names Names, r *recovery, refused func(string, []any) bool, fatalf func(string, ...any)) *serverLog {
	return &serverLog{
		log:      log.With("component", "nats-server"),
		names:    names,
		recovery: r,
		refused:  refused,
		fatalf:   fatalf,
		limit:    newRepeats(time.Now),
		stalls:   newStalls(time.Now),
	}
}

func (l *serverLog) Noticef(format string, args ...any) {
	l.recovery.notice(format, args)
	l.write(noticeLevel(format), format, args)
}

// Errorf leaves out what refusals count: they have a log line of their own.
func (l *serverLog) Errorf(format string, args ...any) {
	if strings.Contains(format, textWriteError) {
		l.writeErrors.Add(1)
	}
	switch {
	case l.refused(format, args):
	case unfinished(format, args):
		l.write(slog.LevelInfo, formatUnfinished, args[:2])
	case ofRoutes(format):
		l.write(slog.LevelWarn, format, args)
	default:
		l.write(slog.LevelError, format, args)
	}
}

// ofRoutes reports whether an error is of a connection that ended or was not made, and
// that is made again: only those between servers are errors to the server. Every start
// of a cluster has some, when two nodes dial each other at once and one connection is
// given up. Whether another node can be reached is said by package appliance.
func ofRoutes(format string) bool {
	return strings.Contains(format, "Error flushing: ") || strings.HasPrefix(format, "Error trying to connect to route (attempt ")
}

const (
	formatNotRestored = "  Failed restoring partial batch write for stream '%s > %s' at sequence %d: %v"
	formatUnfinished  = "Stream '%s > %s' ends in the middle of a batch that was never acknowledged; nothing is lost"
)

// unfinished reports whether an error is only that the last message of a stream is of a
// batch that a power cut interrupted, and whose rest was staged in memory. The server
// acknowledges a batch when all of it is on disk, so nothing of this one was.
func unfinished(format string, args []any) bool {
	if format != formatNotRestored || len(args) != 4 {
		return false
	}
	err, ok := args[3].(error)
	return ok && errors.Is(err, fs.ErrNotExist)
}

// textWriteError is in the format of what the server says when it gives a stream or a
// consumer up that it could not write; once for each. It is pinned by tests with a full
// volume.
const textWriteError = " critical write error: "

// Warnf leaves the refused publishers out while the brake is on: whoever set it has said
// so, and they may be refused for days.
func (l *serverLog) Warnf(format string, args ...any) {
	l.stalls.warning(fmt.Sprintf(format, args...))
	level := slog.LevelWarn
	if l.braked.Load() && overLimit(format, args) {
		level = slog.LevelDebug
	}
	l.write(level, format, args)
}

// overLimit reports whether a warning is of a publisher beyond the account's limit. The
// server's rate limit makes one text of it.
func overLimit(format string, args []any) bool {
	if format != "%s" || len(args) != 1 {
		return false
	}
	text, _ := args[0].(string)
	return strings.Contains(text, " resource limits exceeded for account: ") || strings.HasPrefix(text, "JetStream account limits exceeded for ")
}

func (l *serverLog) Debugf(string, ...any) {}
func (l *serverLog) Tracef(string, ...any) {}

// Fatalf records and logs nothing: the error is returned to somebody who prints
// it.
func (l *serverLog) Fatalf(format string, args ...any) { l.fatalf(format, args...) }

// noticeLevel picks the notices that somebody should see. The server puts the
// client in front of some formats.
func noticeLevel(format string) slog.Level {
	for _, s := range []string{
		"Slow Consumer Detected", "Slow Consumer %s: WriteDeadline",
		// Nothing is left for the server to convert: see unlocking.
		"Encrypting stream", "Converting to %s for stream",
	} {
		if strings.Contains(format, s) {
			return slog.LevelWarn
		}
	}
	for _, s := range []string{
		"Restoring partial batch write for stream",
		"Purge request for account",
		"JetStream relocated account",
	} {
		if strings.Contains(format, s) {
			return slog.LevelInfo
		}
	}
	return slog.LevelDebug
}

func (l *serverLog) write(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	text := l.names.translate(strings.TrimSpace(fmt.Sprintf(format, args...)))
	attrs := []slog.Attr{slog.String("text", text)}
	if level > slog.LevelDebug {
		suppressed, ok := l.limit.allow(format, text)
		if !ok {
			return
		}
		if suppressed > 0 {
			attrs = append(attrs, slog.Int("suppressed", suppressed))
		}
	}
	l.log.LogAttrs(ctx, level, "nats-server message received", attrs...)
}
