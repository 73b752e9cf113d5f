// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// unit is what the number of an API field counts.
type unit int

const (
	things unit = iota
	nanoseconds
	bytes
)

// unitOf is the table of the API's fields that people write with a unit. The
// last part of a dotted name decides, so it holds inside objects too.
func unitOf(field string) unit {
	switch field[strings.LastIndexByte(field, '.')+1:] {
	case "max_age", "duplicate_window", "subject_delete_marker_ttl", "ack_wait", "backoff",
		"idle_heartbeat", "inactive_threshold", "max_expires", "priority_timeout":
		return nanoseconds
	case "max_bytes", "max_msg_size":
		return bytes
	}
	return things
}

// String says what the server has, what the file sets, and where.
func (c FieldChange) String() string {
	s := c.Field + ": " + c.values()
	if at := c.Pos.String(); at != "" {
		s += " (" + at + ")"
	}
	return s
}

func (c FieldChange) values() string {
	if c.Unset {
		return fmt.Sprintf("%s on the server, none in the file", shown(c.Field, c.Have))
	}
	return fmt.Sprintf("%s on the server, %s in the file", shown(c.Field, c.Have), shown(c.Field, c.Want))
}

// shown prints a value the way people write it in the file.
func shown(field string, v any) string {
	switch v := v.(type) {
	case nil:
		return "not set"
	case string:
		return printable(v)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = shown(field, e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if n, ok := number(v); ok {
		if n.IsInt() && n.Num().IsInt64() {
			return withUnit(field, n.Num().Int64())
		}
		return n.RatString()
	}
	object, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(object)
}

func withUnit(field string, n int64) string {
	if n == -1 && strings.HasPrefix(field[strings.LastIndexByte(field, '.')+1:], "max_") {
		return "unlimited"
	}
	switch unitOf(field) {
	case nanoseconds:
		return duration(time.Duration(n))
	case bytes:
		return size(n)
	}
	return strconv.FormatInt(n, 10)
}

// duration prints whole days as days and no empty units.
func duration(d time.Duration) string {
	const day = 24 * time.Hour
	if d > 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// size prints the largest unit that divides the size without a rest.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	u := 0
	for n != 0 && n%1024 == 0 && u < len(units)-1 {
		n, u = n/1024, u+1
	}
	return strconv.FormatInt(n, 10) + units[u]
}

// printable quotes text that has spaces or control characters or is empty: what
// a client stored must not talk to the terminal.
func printable(s string) string {
	if q := strconv.Quote(s); s == "" || strings.ContainsRune(s, ' ') || q != `"`+s+`"` {
		return q
	}
	return s
}
