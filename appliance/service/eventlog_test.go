// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
)

type written []string

func (w *written) add(kind string, id uint32, text string) error {
	*w = append(*w, fmt.Sprintf("%s %d %s", kind, id, text))
	return nil
}
func (w *written) Info(id uint32, text string) error    { return w.add("info", id, text) }
func (w *written) Warning(id uint32, text string) error { return w.add("warning", id, text) }
func (w *written) Error(id uint32, text string) error   { return w.add("error", id, text) }

func TestEventsHaveTheLevelOfTheLine(t *testing.T) {
	var w written
	log := slog.New(newEventHandler(&w)).With("node", "n1")
	log.Info("ready")
	log.Warn("volume is too full", "free", "1 GiB")
	log.Error("stream was damaged")
	want := []string{
		"warning 2 volume is too full\r\nnode=n1 free=\"1 GiB\"",
		"error 3 stream was damaged\r\nnode=n1",
	}
	if !slices.Equal(w, want) {
		t.Errorf("got %q, want %q", w, want)
	}
}
