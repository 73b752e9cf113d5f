// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestCompareIgnoresWhatTheServerMakesOfAValue(t *testing.T) {
	for _, tc := range []struct {
		kind      Kind
		set, have string
	}{
		{KindStream, `{}`, `{"max_msgs":7,"description":"theirs"}`},
		{KindStream, `{"max_age":null}`, `{"max_age":7}`},
		{KindStream, `{"max_msgs":0,"max_bytes":-5}`, `{"max_msgs":-1,"max_bytes":-1}`},
		{KindStream, `{"duplicate_window":0,"num_replicas":0,"subjects":[]}`, `{"duplicate_window":120,"num_replicas":1,"subjects":["S"]}`},
		{KindStream, `{"no_ack":false,"description":"","placement":{"tags":[]}}`, `{}`},
		{KindStream, `{"max_bytes":1e3}`, `{"max_bytes":1000}`},
		{KindStream, `{"first_seq":18446744073709551615}`, `{"first_seq":18446744073709551615}`},
		{KindStream, `{"subjects":["a","b"]}`, `{"subjects":["b","a"]}`},
		{KindStream, `{"placement":{"tags":["a","b"]}}`, `{"placement":{"cluster":"c","tags":["b","a"]}}`},
		{KindStream, `{"metadata":{"team":"a"}}`, `{"metadata":{"team":"a","_nats.level":"5","holdfast.managed":"true"}}`},
		{KindStream, `{"metadata":{"holdfast.managed":"no","_nats.level":"1"}}`, `{"metadata":{"holdfast.managed":"true"}}`},
		{KindStream, `{"mirror":{},"placement":{},"republish":{},"subject_transform":{},"consumer_limits":{},"metadata":{}}`, `{"metadata":{"team":"a"}}`},
		{KindStream, `{"persist_mode":"default"}`, `{}`},
		{KindStream, `{"sources":[{"name":"A"},{"name":"B"}]}`, `{"sources":[{"name":"B"},{"name":"A","opt_start_seq":0}]}`},
		{KindStream, `{"sources":[{"name":"A"},{"name":"A","filter_subject":"x"}]}`, `{"sources":[{"name":"A","filter_subject":"x"},{"name":"A"}]}`},
		{KindStream, `{"mirror":{"name":"A","opt_start_time":"2026-01-01T02:00:00+02:00"}}`, `{"mirror":{"name":"A","opt_start_time":"2026-01-01T00:00:00Z"}}`},
		{KindStream, `{"sources":[{"name":"A","opt_start_time":"2026-01-01T02:00:00+02:00"}]}`, `{"sources":[{"name":"A","opt_start_time":"2026-01-01T00:00:00Z"}]}`},
		{KindStream, `{"mirror":{"name":"A"},"mirror_direct":true}`, `{"mirror":{"name":"A"},"mirror_direct":false}`},
		{KindStream, `{"republish":{"dest":"x.>"}}`, `{"republish":{"src":">","dest":"x.>"}}`},
		{KindConsumer, `{"filter_subject":"x"}`, `{"filter_subjects":["x"]}`},
		{KindConsumer, `{"filter_subjects":["x"]}`, `{"filter_subject":"x"}`},
		{KindConsumer, `{"filter_subjects":["x","y"]}`, `{"filter_subjects":["y","x"]}`},
		{KindConsumer, `{"filter_subject":""}`, `{}`},
		{KindConsumer, `{"max_deliver":0,"max_waiting":-1,"max_batch":-1}`, `{"max_deliver":-1,"max_waiting":512}`},
		{KindConsumer, `{"ack_wait":0,"max_ack_pending":0}`, `{"ack_wait":30,"max_ack_pending":1000}`},
		{KindConsumer, `{"ack_wait":30,"backoff":[1,2]}`, `{"ack_wait":1,"backoff":[1,2]}`},
		{KindConsumer, `{"pause_until":"2026-01-01T02:00:00.5+02:00"}`, `{"pause_until":"2026-01-01T00:00:00.500Z"}`},
		{KindConsumer, `{"priority_policy":"none"}`, `{}`},
		{KindConsumer, `{"priority_groups":["a","b"]}`, `{"priority_groups":["b","a"]}`},
	} {
		if got := compare(tc.kind, parse(t, tc.set), parse(t, tc.have)); len(got) > 0 {
			t.Errorf("%s %s on a server with %s: got %v, want no difference", tc.kind, tc.set, tc.have, got)
		}
	}
}

func TestCompareFindsEveryRealDifference(t *testing.T) {
	for _, tc := range []struct {
		kind            Kind
		set, have, want string
	}{
		{KindStream, `{"max_bytes":2147483648}`, `{"max_bytes":1073741824}`, "max_bytes: 1GiB on the server, 2GiB in the file"},
		{KindStream, `{"max_bytes":-1}`, `{"max_bytes":1000}`, "max_bytes: 1000B on the server, unlimited in the file"},
		{KindStream, `{"max_age":0}`, `{"max_age":5400000000000}`, "max_age: 1h30m on the server, 0s in the file"},
		{KindStream, `{"max_age":172800000000000}`, `{"max_age":172801000000000}`, "max_age: 48h0m1s on the server, 2d in the file"},
		{KindStream, `{"first_seq":18446744073709551615}`, `{"first_seq":18446744073709551614}`, "first_seq: 18446744073709551614 on the server, 18446744073709551615 in the file"},
		{KindStream, `{"no_ack":true}`, `{}`, "no_ack: not set on the server, true in the file"},
		{KindStream, `{"no_ack":false}`, `{"no_ack":true}`, "no_ack: true on the server, false in the file"},
		{KindStream, `{"subjects":["a"]}`, `{"subjects":["a","b"]}`, "subjects: [a, b] on the server, [a] in the file"},
		{KindStream, `{"subjects":["a","b"]}`, `{"subjects":["a","c"]}`, "subjects: [a, c] on the server, [a, b] in the file"},
		{KindStream, `{"description":"two words"}`, `{"description":""}`, `description: "" on the server, "two words" in the file`},
		{KindStream, `{"metadata":{"team":"a"}}`, `{"metadata":{"team":"b"}}`, "metadata.team: b on the server, a in the file"},
		{KindStream, `{"metadata":{"team":"a"}}`, `{}`, "metadata.team: not set on the server, a in the file"},
		{KindStream, `{"consumer_limits":{"inactive_threshold":60000000000}}`, `{"consumer_limits":{"inactive_threshold":1}}`, "consumer_limits.inactive_threshold: 1ns on the server, 1m in the file"},
		{KindStream, `{"persist_mode":"default"}`, `{"persist_mode":"async"}`, "persist_mode: async on the server, default in the file"},
		{KindStream, `{"persist_mode":"async"}`, `{}`, "persist_mode: default on the server, async in the file"},
		{KindStream, `{"sources":[{"name":"A"}]}`, `{"sources":[{"name":"A","filter_subject":"x"}]}`, `sources: [{"filter_subject":"x","name":"A"}] on the server, [{"name":"A"}] in the file`},
		{KindStream, `{"mirror":{"name":"A"}}`, `{}`, "mirror.name: not set on the server, A in the file"},
		{KindStream, `{"mirror":{"name":"A","external":{"api":"x"}},"mirror_direct":true}`, `{"mirror":{"name":"A","external":{"api":"x"}}}`, "mirror_direct: not set on the server, true in the file"},
		{KindStream, `{"republish":{"dest":"x"}}`, `{"republish":{"src":"a","dest":"x"}}`, "republish.src: a on the server, > in the file"},
		{KindStream, `{"mirror":{}}`, `{"mirror":{"name":"A"}}`, `mirror: {"name":"A"} on the server, none in the file`},
		{KindConsumer, `{"filter_subject":"x"}`, `{"filter_subjects":["x","y"]}`, "filter_subject: [x, y] on the server, x in the file"},
		{KindConsumer, `{"filter_subjects":["x","y"]}`, `{}`, "filter_subjects: not set on the server, [x, y] in the file"},
		{KindConsumer, `{"filter_subjects":[]}`, `{"filter_subject":"x"}`, "filter_subjects: x on the server, not set in the file"},
		{KindConsumer, `{"backoff":[1000000000,2000000000]}`, `{"backoff":[2000000000,1000000000]}`, "backoff: [2s, 1s] on the server, [1s, 2s] in the file"},
		{KindConsumer, `{"ack_wait":30000000000}`, `{"ack_wait":1000000000,"backoff":[1000000000]}`, "ack_wait: 1s on the server, 30s in the file"},
		{KindConsumer, `{"pause_until":"2026-01-01T00:00:00Z"}`, `{"pause_until":"2026-01-01T00:00:00.5Z"}`, "pause_until: 2026-01-01T00:00:00.5Z on the server, 2026-01-01T00:00:00Z in the file"},
		{KindConsumer, `{"max_waiting":512}`, `{"max_waiting":10}`, "max_waiting: 10 on the server, 512 in the file"},
		{KindConsumer, `{"max_deliver":5}`, `{"max_deliver":-1}`, "max_deliver: unlimited on the server, 5 in the file"},
		{KindConsumer, `{"ack_policy":"explicit"}`, `{"ack_policy":"none"}`, "ack_policy: none on the server, explicit in the file"},
	} {
		got := compare(tc.kind, parse(t, tc.set), parse(t, tc.have))
		if len(got) != 1 || got[0].String() != tc.want {
			t.Errorf("%s %s on a server with %s: got %v, want [%s]", tc.kind, tc.set, tc.have, got, tc.want)
		}
	}
}

func TestPositionFallsBackToWhatIsAround(t *testing.T) {
	fields := map[string]diag.Pos{"consumer_limits": line(2), "metadata.team": line(3)}
	for field, want := range map[string]diag.Pos{
		"metadata.team": line(3), "consumer_limits.max_ack_pending": line(2), "max_bytes": line(1),
	} {
		if got := position(field, fields, line(1)); got != want {
			t.Errorf("%s: got %s, want %s", field, got, want)
		}
	}
}

func TestReportSurvivesJSON(t *testing.T) {
	report := Report{Results: []Result{
		{Action: Action{Op: Create, Kind: KindStream, Account: "a", Stream: "S"}, Outcome: Failed,
			Err: diag.Fail(diag.CodeCreate, errors.New("create stream: no room"), "make room")},
		{Action: Action{Op: Keep, Kind: KindStream, Account: "a", Stream: "T"}, Outcome: Done},
	}}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"outcome":"failed","error":"create stream: no room","code":"HF2201","hint":"make room"`; !strings.Contains(string(text), want) {
		t.Errorf("got %s, want it to hold %s", text, want)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	first := back.Results[0]
	if first.Err == nil || first.Err.Error() != "create stream: no room" || diag.Hint(first.Err) != "make room" || diag.CodeOf(first.Err) != diag.CodeCreate {
		t.Errorf("error after JSON: got %v, want it whole", first.Err)
	}
	if diff := cmp.Diff(report.Results[1], back.Results[1]); diff != "" {
		t.Errorf("result after JSON (-want +got):\n%s", diff)
	}
}

func TestReportIsConvergedWhenAllThatIsDeclaredExists(t *testing.T) {
	for _, tc := range []struct {
		op      Op
		outcome Outcome
		want    bool
	}{
		{Create, Done, true}, {Create, Failed, false}, {Create, Skipped, false}, {Keep, Done, true},
		{Update, Failed, true}, {Drop, Skipped, true}, {Blocked, Skipped, true},
		{Recreate, Done, true}, {Recreate, Failed, false}, {Recreate, Skipped, false}, {Unmanaged, Skipped, true}, {Unknown, Skipped, false},
	} {
		r := Report{Results: []Result{{Action: Action{Op: tc.op, Stream: "S"}, Outcome: tc.outcome}}}
		if got := r.Converged(); got != tc.want {
			t.Errorf("%s %s: got converged %v, want %v", tc.op, tc.outcome, got, tc.want)
		}
	}
}
