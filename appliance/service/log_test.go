// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
)

func TestJournalLinesHaveALevelAndNoTime(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "8:12345")
	var out bytes.Buffer
	log := NewLogger(&out, "debug", "auto")
	log.Debug("message d")
	log.Info("message i", "stream", "ORDERS")
	log.With("component", "nats-server").Warn("message w", "what", "two words")
	log.WithGroup("g").Error("message e", "level", "kept", "time", "kept")
	log.Log(t.Context(), slog.LevelError+4, "message worse")
	want := "<7>msg=\"message d\"\n" +
		"<6>msg=\"message i\" stream=ORDERS\n" +
		"<4>msg=\"message w\" component=nats-server what=\"two words\"\n" +
		"<3>msg=\"message e\" g.level=kept g.time=kept\n" +
		"<3>msg=\"message worse\"\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestJournalLinesStayWhole(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "8:12345")
	var out bytes.Buffer // one Write is one line, so a plain buffer is enough under the handler's lock
	log := NewLogger(&out, "info", "auto")
	var writers sync.WaitGroup
	for range 8 {
		child := log.With("a", "b")
		writers.Go(func() {
			for range 100 {
				child.Info("message with a newline\nin it")
			}
		})
	}
	writers.Wait()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 800 {
		t.Errorf("got %d lines, want 800", len(lines))
	}
	for _, l := range lines {
		if l != `<6>msg="message with a newline\nin it" a=b` {
			t.Fatalf("got %q, want a whole line", l)
		}
	}
}

func TestLogForPeopleHasATime(t *testing.T) {
	for format, journal := range map[string]string{"auto": "", "text": "8:12345"} {
		t.Setenv("JOURNAL_STREAM", journal)
		var out bytes.Buffer
		log := NewLogger(&out, "warn", format)
		log.Info("message i")
		log.Warn("message w")
		if got := out.String(); !regexp.MustCompile(`^time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d) level=WARN msg="message w"\n$`).MatchString(got) {
			t.Errorf("%s: got %q, want the warning with a time", format, got)
		}
	}
}

func TestLogForMachinesIsJSON(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "8:12345")
	var out bytes.Buffer
	NewLogger(&out, "info", "json").Info("message", "stream", "ORDERS")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["msg"] != "message" || line["stream"] != "ORDERS" || line["level"] != "INFO" {
		t.Errorf("got %q, %v, want a line of JSON", out.String(), err)
	}
}
