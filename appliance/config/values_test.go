// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestValuesReadWhatPeopleWrite(t *testing.T) {
	for _, c := range []struct {
		v    value
		raw  any
		want any // what the API gets
		text string
	}{
		{new(Duration), "30s", "30000000000", "30s"},
		{new(Duration), "7d", "604800000000000", "7d"},
		{new(Duration), "1d12h", "129600000000000", "36h"},
		{new(Duration), "1.5d", "129600000000000", "36h"},
		{new(Duration), "90m", "5400000000000", "1h30m"},
		{new(Duration), "500ms", "500000000", "500ms"},
		{new(Duration), "0s", "0", "0s"},
		{new(Size), "8GiB", "8589934592", "8GiB"},
		{new(Size), "500MB", "500000000", "500000000B"},
		{new(Size), "1.5 KiB", "1536", "1536B"},
		{new(Size), int64(2048), "2048", "2KiB"},
		{new(Size), "unlimited", "-1", "unlimited"},
		{new(Count), int64(5), "5", "5"},
		{new(Count), "unlimited", "-1", "unlimited"},
		{new(Share), "80%", "80%", "80%"},
		{new(Share), " 12.5 % ", "12.5%", "12.5%"},
		{new(Share), "200GiB", "200GiB", "200GiB"},
		{new(Replicas), "auto", "0", ""},
		{new(Replicas), int64(3), "3", ""},
		{new(Time), "2026-01-31T18:00:00+02:00", "2026-01-31T16:00:00Z", ""},
		{new(Address), "127.0.0.1:4222", "127.0.0.1:4222", ""},
		{new(Address), "[::1]:0", "[::1]:0", ""},
		{new(Address), "off", "", ""},
		{new(Subject), "orders.*.>", "orders.*.>", ""},
		{new(Secret), "file:/x", "[redacted]", "[redacted]"},
	} {
		if err := c.v.set(c.raw); err != nil {
			t.Errorf("%T from %v: got %v, want no error", c.v, c.raw, err)
			continue
		}
		if got := fmt.Sprint(c.v.api()); got != c.want {
			t.Errorf("%T from %v: got %s for the API, want %s", c.v, c.raw, got, c.want)
		}
		if c.text == "" {
			continue
		}
		got := fmt.Sprint(reflect.ValueOf(c.v).Elem().Interface())
		if got != c.text {
			t.Errorf("%T from %v: got %q printed, want %q", c.v, c.raw, got, c.text)
		}
		if _, secret := c.v.(*Secret); secret {
			continue
		}
		again := reflect.New(reflect.TypeOf(c.v).Elem()).Interface().(value)
		if err := again.set(got); err != nil && got != "5" {
			t.Errorf("%T: got %v reading its own %q, want no error", c.v, err, got)
		} else if err == nil && !reflect.DeepEqual(again, c.v) {
			t.Errorf("%T: got %v from its own %q, want the same", c.v, again.api(), got)
		}
	}
}

func TestValuesRefuseWhatIsUnclear(t *testing.T) {
	for _, c := range []struct {
		v    value
		raws []any
	}{
		{new(Duration), []any{int64(30), "30", "-1s", "1d-1h", "soon", "", "99999999999d", "106751d25h", true}},
		{new(Size), []any{int64(0), int64(-1), "-1", "8G", "lots", "", "0B", "9EiB", "99999EiB", 1.5, true}},
		{new(Count), []any{int64(0), int64(-1), "5", 1.5, true}},
		{new(Share), []any{"0%", "101%", "NaN%", "%", "unlimited", int64(80), "x", true}},
		{new(Replicas), []any{int64(0), int64(6), "3", true}},
		{new(Time), []any{"today", "2026-01-31", int64(5)}},
		{new(Address), []any{"4222", ":4222", "h:99999", "h:x", "h:-1", "h:+1", "h:01", int64(4222)}},
		{new(Subject), []any{"", "a..b", ".a", "a.", "a.>.b", "a b", "a\tb", int64(1)}},
		{new(Secret), []any{"hunter2", "file:", int64(5)}},
	} {
		for _, raw := range c.raws {
			err := c.v.set(raw)
			if err == nil {
				t.Errorf("%T from %v: got no error, want one", c.v, raw)
			} else if diag.Hint(err) == "" {
				t.Errorf("%T from %v: got %v without a fix, want one", c.v, raw, err)
			}
		}
	}
}

func TestAPIValuesHoldOnlyWhatIsSet(t *testing.T) {
	size, text, window := Size(8<<30), "workqueue", Duration(time.Second)
	on, first, n := true, uint64(7), Replicas(0)
	src := Subject("a.>")
	s := Stream{
		MaxBytes: &size, Retention: &text, DuplicateWindow: &window, AllowDirect: &on, FirstSeq: &first, NumReplicas: &n,
		Subjects: []Subject{"a.>"}, Sources: []StreamSource{{FilterSubject: &src}}, Metadata: map[string]string{"a": "b"},
		GroupCommit: &text, Consumers: map[string]Consumer{"c": {}},
	}
	want := map[string]any{
		"max_bytes": json.Number("8589934592"), "retention": "workqueue", "duplicate_window": json.Number("1000000000"), "allow_direct": true,
		"first_seq": json.Number("7"), "num_replicas": json.Number("0"), "subjects": []any{"a.>"}, "sources": []any{map[string]any{"filter_subject": "a.>"}},
		"metadata": map[string]any{"a": "b"},
	}
	if diff := cmp.Diff(want, APIValues(s)); diff != "" {
		t.Errorf("got other values (-want +got):\n%s", diff)
	}
}

func TestNearestSuggestsWhatWasMeant(t *testing.T) {
	stream, consumer := nodeOf(reflect.TypeFor[Stream]()).order, nodeOf(reflect.TypeFor[Consumer]()).order
	for _, c := range []struct {
		name       string
		candidates []string
		want       string
	}{
		{"replicsa", stream, "num_replicas"},
		{"replicas", stream, "num_replicas"},
		{"subject", stream, "subjects"},
		{"max_deliveries", consumer, "max_deliver"},
		{"acks_wait", consumer, "ack_wait"},
		{"ttl", stream, "max_age"},
		{"dedupe_window", stream, "duplicate_window"},
		{"duplicates", stream, "duplicate_window"},
		{"filter", consumer, "filter_subject"},
		{"filters", consumer, "filter_subjects"},
		{"Max_Bytes", stream, "max_bytes"},
		{"max_byte", stream, "max_bytes"},
		{"work_queue", []string{"limits", "interest", "workqueue"}, "workqueue"},
		{"rollup", stream, ""},
		{"id", stream, ""},
		{"x", stream, ""},
		{"foo", consumer, ""},
		{"zebra", stream, ""},
		{"on", []string{"off", "no"}, "no"},
		{"filter", stream, ""},
	} {
		if got, ok := nearest(c.name, c.candidates); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: got %q %t, want %q", c.name, got, ok, c.want)
		}
	}
}

func TestOtherWordsNameKeysThatExist(t *testing.T) {
	keys := map[string]bool{}
	for _, k := range Keys() {
		keys[k.Path[lastDot(k.Path)+1:]] = true
	}
	for word, key := range otherWords() {
		if !keys[key] {
			t.Errorf("got %q for %q, want a key of the table", key, word)
		}
	}
}

func lastDot(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			return i
		}
	}
	return -1
}

func TestEveryKeyHasHelp(t *testing.T) {
	if len(Keys()) < 150 {
		t.Errorf("got %d keys, want the whole table", len(Keys()))
	}
	for _, k := range Keys() {
		if k.Help == "" || k.Kind == "" {
			t.Errorf("%s: got help %q and kind %q, want both", k.Path, k.Help, k.Kind)
		}
	}
}
