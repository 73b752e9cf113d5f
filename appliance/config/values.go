// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// A value is a leaf type with a spelling of its own. set takes what YAML holds
// (string, int64, uint64, float64 or bool) and says what to write instead when
// it does not fit; api is the value in the JetStream API's JSON.
type value interface {
	set(raw any) error
	api() any
	kind() string
}

// mismatch is a value that does not fit, and what to write instead.
type mismatch struct{ what, fix string }

func (m *mismatch) Error() string { return m.what }
func (m *mismatch) Hint() string  { return m.fix }

func wrong(what, fix string) error { return &mismatch{what, fix} }

// shown prints a raw value the way it stands in the file.
func shown(raw any) string {
	if s, ok := raw.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(raw)
}

// Duration is a time span, written with units: 30s, 5m, 12h, 7d.
type Duration time.Duration

const durationForm = "write a number and a unit, such as 500ms, 30s, 5m, 12h or 7d"

var days = regexp.MustCompile(`^(\d+(?:\.\d+)?)d(.*)$`)

func (d *Duration) set(raw any) error {
	s, ok := raw.(string)
	if !ok {
		return wrong(fmt.Sprintf("%v has no unit", raw), durationForm)
	}
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// spelled is what a duration without days looks like, whatever its length.
var spelled = regexp.MustCompile(`^[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$`)

// ParseDuration reads a time span as it is written in the configuration: as
// time.ParseDuration does, but with days (7d, 1d12h) and never negative. Its
// error has a hint.
func ParseDuration(s string) (time.Duration, error) {
	span, rest := time.Duration(0), s
	tooLong := wrong(fmt.Sprintf("%q is too long", s), "write a time below 106751d")
	if m := days.FindStringSubmatch(s); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil || n > math.MaxInt64/float64(24*time.Hour) {
			return 0, tooLong
		}
		span, rest = time.Duration(n*float64(24*time.Hour)), m[2]
		if rest == "" {
			return span, nil
		}
	}
	signed := rest != s && strings.ContainsAny(rest[:1], "+-")
	d, err := time.ParseDuration(rest)
	switch {
	case !signed && err != nil && spelled.MatchString(rest), err == nil && d > math.MaxInt64-span:
		return 0, tooLong
	case err != nil || signed:
		return 0, wrong(fmt.Sprintf("%q is not a duration", s), durationForm)
	case d < 0:
		return 0, wrong(fmt.Sprintf("%q is negative", s), durationForm)
	}
	return span + d, nil
}

func (d *Duration) api() any   { return json.Number(strconv.FormatInt(int64(*d), 10)) }
func (*Duration) kind() string { return "duration" }
func (d Duration) String() string {
	t := time.Duration(d)
	if t > 0 && t%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(t/(24*time.Hour)), 10) + "d"
	}
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Unlimited is the API's own spelling of a limit that does not exist.
const Unlimited = -1

// maxReplicas is the most copies nats-server keeps (StreamMaxReplicas).
const maxReplicas = 5

// Size is a number of bytes, written with units: 8GiB, 500MB, or plain bytes.
// Unlimited (-1) is written "unlimited".
type Size int64

var sized = regexp.MustCompile(`(?i)^\d+(?:\.\d+)?\s*(?:[kmgtpe]i?)?b$`)

func (z *Size) set(raw any) error {
	n, err := parseSize(raw)
	if err != nil {
		return err
	}
	*z = Size(n)
	return nil
}

func parseSize(raw any) (int64, error) {
	const fix = "write a number of bytes, or a number and a unit, such as 512KiB, 20MiB, 8GiB or 1TiB"
	switch v := raw.(type) {
	case int64:
		return countFrom(v)
	case string:
		if v == "unlimited" {
			return Unlimited, nil
		}
		if !sized.MatchString(v) {
			return 0, wrong(fmt.Sprintf("%q is not a size", v), fix)
		}
		n, err := humanize.ParseBytes(v)
		if err != nil || n > math.MaxInt64 {
			return 0, wrong(fmt.Sprintf("%q is not a size that fits 8 EiB", v), fix)
		}
		return countFrom(int64(n))
	}
	return 0, wrong(fmt.Sprintf("%v is not a size", shown(raw)), fix)
}

func (z *Size) api() any   { return json.Number(strconv.FormatInt(int64(*z), 10)) }
func (*Size) kind() string { return "size" }

// String prints the largest unit that divides the size without a rest.
func (z Size) String() string {
	if z == Unlimited {
		return "unlimited"
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	n, u := int64(z), 0
	for n != 0 && n%1024 == 0 && u < len(units)-1 {
		n, u = n/1024, u+1
	}
	return strconv.FormatInt(n, 10) + units[u]
}

// Count is a number of things; Unlimited (-1) is written "unlimited".
type Count int64

func (c *Count) set(raw any) error {
	switch v := raw.(type) {
	case int64:
		n, err := countFrom(v)
		*c = Count(n)
		return err
	case string:
		if v == "unlimited" {
			*c = Unlimited
			return nil
		}
	}
	return wrong(fmt.Sprintf("%s is not a number", shown(raw)), "write a whole number, or unlimited")
}

// countFrom refuses what the API silently takes for "no limit": a limit that
// does not exist has to be readable in the file.
func countFrom(v int64) (int64, error) {
	if v > 0 {
		return v, nil
	}
	return 0, wrong(fmt.Sprintf("%d means unlimited to the server", v), "write unlimited if that is meant, else a number above 0")
}

func (c *Count) api() any   { return json.Number(strconv.FormatInt(int64(*c), 10)) }
func (*Count) kind() string { return "count" }
func (c Count) String() string {
	if c == Unlimited {
		return "unlimited"
	}
	return strconv.FormatInt(int64(c), 10)
}

// Share is a share of a total (80%) or a size (200GiB).
type Share struct {
	Percent float64 // above 0 and up to 100; 0 when Bytes is set
	Bytes   int64
}

func (s *Share) set(raw any) error {
	const fix = "write a share such as 80%, or a size such as 200GiB"
	text, ok := raw.(string)
	if num, found := strings.CutSuffix(strings.TrimSpace(text), "%"); ok && found {
		p, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
		if err != nil || !(p > 0 && p <= 100) {
			return wrong(fmt.Sprintf("%q is not a share between 0%% and 100%%", text), fix)
		}
		*s = Share{Percent: p}
		return nil
	}
	n, err := parseSize(raw)
	if err == nil && !ok && n <= 100 {
		return wrong(fmt.Sprintf("%d would be a number of bytes", n), fmt.Sprintf("write %d%% for a share, or a size such as 200GiB", n))
	}
	if err != nil || n == Unlimited {
		return wrong(shown(raw)+" is neither a share nor a size", fix)
	}
	*s = Share{Bytes: n}
	return nil
}

// Of is the number of bytes the share is of a total.
func (s Share) Of(total int64) int64 {
	if s.Percent > 0 {
		return int64(float64(total) * s.Percent / 100)
	}
	return s.Bytes
}

func (s *Share) api() any   { return s.String() }
func (*Share) kind() string { return "share" }
func (s Share) String() string {
	if s.Percent > 0 {
		return strconv.FormatFloat(s.Percent, 'f', -1, 64) + "%"
	}
	return Size(s.Bytes).String()
}

// Replicas is a number of copies; 0 is auto: 1 on one node, 3 on three.
type Replicas int

func (r *Replicas) set(raw any) error {
	switch v := raw.(type) {
	case string:
		if v == "auto" {
			*r = 0
			return nil
		}
	case int64:
		if v >= 1 && v <= maxReplicas {
			*r = Replicas(v)
			return nil
		}
	}
	return wrong(shown(raw)+" is not a number of replicas", "write auto, or a number from 1 to 5")
}

func (r *Replicas) api() any   { return json.Number(strconv.Itoa(int(*r))) }
func (*Replicas) kind() string { return "replicas" }

// Time is an instant, written as in RFC 3339.
type Time struct{ time.Time }

func (t *Time) set(raw any) error {
	s, _ := raw.(string)
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return wrong(shown(raw)+" is not a time", "write it as in RFC 3339, such as 2026-01-31T18:00:00Z")
	}
	t.Time = v
	return nil
}

func (t *Time) api() any   { return t.UTC().Format(time.RFC3339Nano) }
func (*Time) kind() string { return "time" }
