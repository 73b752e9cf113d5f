// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"log/slog"
	"strings"
)

// events is the Event Log of Windows: what a human must see, with a number for each level.
type events interface {
	Info(id uint32, text string) error
	Warning(id uint32, text string) error
	Error(id uint32, text string) error
}

// The numbers of events, which scripts filter by. EventCreate.exe has texts for 1 to 1000.
const (
	eventInfo    = 1
	eventWarning = 2
	eventError   = 3
)

// eventHandler passes warnings and errors on, by their level.
type eventHandler struct {
	to    events
	inner slog.Handler
	line  *line
}

func newEventHandler(to events) *eventHandler {
	l := &line{}
	return &eventHandler{to, slog.NewTextHandler(&l.buf, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}}), l}
}

func (h *eventHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (h *eventHandler) WithGroup(name string) slog.Handler {
	return &eventHandler{h.to, h.inner.WithGroup(name), h.line}
}

func (h *eventHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &eventHandler{h.to, h.inner.WithAttrs(attrs), h.line}
}

func (h *eventHandler) Handle(ctx context.Context, r slog.Record) error {
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.buf.Reset()
	if err := h.inner.Handle(ctx, r); err != nil {
		return err
	}
	text := strings.TrimSpace(r.Message + "\r\n" + strings.TrimSpace(h.line.buf.String()))
	if r.Level >= slog.LevelError {
		return h.to.Error(eventError, text)
	}
	return h.to.Warning(eventWarning, text)
}
