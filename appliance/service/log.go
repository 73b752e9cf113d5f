// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// NewLogger makes the log of a node. level and format are those of the
// configuration: format auto is text for people, and lines for the journal
// under systemd.
func NewLogger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // checked with the configuration; info otherwise
	o := &slog.HandlerOptions{Level: l}
	switch {
	case format == "json":
		return slog.New(slog.NewJSONHandler(w, o))
	case format == "auto" && os.Getenv("JOURNAL_STREAM") != "":
		return slog.New(newJournal(w, o))
	}
	o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			a.Value = slog.StringValue(a.Value.Time().Format(time.RFC3339))
		}
		return a
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// journal writes lines as the journal reads them (sd-daemon(3)): the level as
// a prefix, and no time, for the journal has its own.
type journal struct {
	inner slog.Handler
	line  *line
}

type line struct {
	mu  sync.Mutex
	buf bytes.Buffer
	w   io.Writer
}

func newJournal(w io.Writer, o *slog.HandlerOptions) slog.Handler {
	l := &line{w: w}
	o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}
	return &journal{slog.NewTextHandler(&l.buf, o), l}
}

func (j *journal) Enabled(ctx context.Context, l slog.Level) bool { return j.inner.Enabled(ctx, l) }
func (j *journal) WithGroup(name string) slog.Handler {
	return &journal{j.inner.WithGroup(name), j.line}
}
func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journal{j.inner.WithAttrs(attrs), j.line}
}

func (j *journal) Handle(ctx context.Context, r slog.Record) error {
	j.line.mu.Lock()
	defer j.line.mu.Unlock()
	j.line.buf.Reset()
	j.line.buf.WriteString(priority(r.Level))
	if err := j.inner.Handle(ctx, r); err != nil {
		return err
	}
	_, err := j.line.w.Write(j.line.buf.Bytes())
	return err
}

// priority is the level in syslog's numbers.
func priority(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "<3>"
	case l >= slog.LevelWarn:
		return "<4>"
	case l >= slog.LevelInfo:
		return "<6>"
	}
	return "<7>"
}
