// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"time"
)

func featureRows() []behaviour {
	const schedules = "allow_msg_schedules: true, allow_rollup_hdrs: true, discard: old"
	counter := func(want, by string) step { return pub("count", want).with("Nats-Incr: " + by).body("") }
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	schedule := func(want, when, target string) step {
		return pub("plan", want).with("Nats-Schedule: " + when + "\nNats-Schedule-Target: " + target)
	}
	return []behaviour{
		{name: "rollup of a subject", config: "allow_rollup_hdrs: true", steps: script(pub("a", "ok"), pub("a", "ok"), pub("a", "ok").with("Nats-Rollup: sub"), pub("b", "ok"))},
		{name: "rollup of all", exact: true, config: "allow_rollup_hdrs: true", steps: script(pub("a", "ok"), pub("b", "ok"), pub("a", "ok").with("Nats-Rollup: all"), pub("a", "ok"))},
		{name: "rollup of neither", config: "allow_rollup_hdrs: true", steps: script(pub("a", "10111").with("Nats-Rollup: some"), pub("a", "ok"))},
		{name: "rollup that is not allowed", steps: script(pub("a", "10111").with("Nats-Rollup: sub"), pub("a", "ok"))},
		{name: "rollup with an expectation", config: "allow_rollup_hdrs: true", steps: script(pub("a", "ok"), pub("a", "ok").with("Nats-Rollup: sub\nNats-Expected-Last-Subject-Sequence: {own}"), pub("a", "10071").with("Nats-Rollup: sub\nNats-Expected-Last-Subject-Sequence: 777777"))},
		{name: "TTL", config: "allow_msg_ttl: true", steps: script(pub("a", "ok").with("Nats-TTL: 1h"), pub("a", "ok").with("Nats-TTL: 100"), pub("a", "ok").with("Nats-TTL: never"))},
		{name: "TTL that ends", exact: true, config: "allow_msg_ttl: true", steps: script(pub("a", "ok").with("Nats-TTL: 1s"), pub("a", "ok"), pause(2500*time.Millisecond))},
		{name: "TTL that is none", config: "allow_msg_ttl: true", steps: script(pub("a", "10165").with("Nats-TTL: soon"), pub("a", "10165").with("Nats-TTL: 1ms"), pub("a", "10165").with("Nats-TTL: -5"), pub("a", "ok"))},
		{name: "TTL that is not allowed", steps: script(pub("a", "10166").with("Nats-TTL: 1h"), pub("a", "ok"))},
		{name: "schedule", config: schedules, steps: script(schedule("ok", "@at "+at, "{s}.target"), pub("a", "ok"))},
		{name: "schedule that repeats", config: schedules, steps: script(schedule("ok", "@every 1h", "{s}.target"), schedule("ok", "@daily", "{s}.target"), schedule("ok", "0 0 5 * * *", "{s}.target"))},
		{name: "schedule that is none", config: schedules, steps: script(schedule("10189", "@sometimes", "{s}.target"), pub("a", "ok"))},
		{name: "schedule for another stream", config: schedules, steps: script(schedule("10190", "@at "+at, "elsewhere"), schedule("10190", "@at "+at, "{s}.plan"), pub("a", "ok"))},
		{name: "schedule with a TTL", config: schedules + ", allow_msg_ttl: true", steps: script(schedule("ok", "@at "+at, "{s}.target").and("Nats-Schedule-TTL: 1h"), schedule("10191", "@at "+at, "{s}.target").and("Nats-Schedule-TTL: soon"))},
		{name: "schedule with a rollup of all", config: schedules, steps: script(schedule("10192", "@at "+at, "{s}.target").and("Nats-Rollup: all"), pub("a", "ok"))},
		{name: "schedule that comes due", exact: true, config: schedules, steps: script(schedule("ok", "@at "+time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), "{s}.target"), pause(1500*time.Millisecond), pub("a", "ok"))},
		{name: "schedule that is not allowed", steps: script(schedule("10188", "@at "+at, "{s}.target"), pub("a", "ok"))},
		{name: "scheduler of nobody", config: schedules, steps: script(pub("a", "any").with("Nats-Scheduler: {s}.b"), pub("a", "any").with("Nats-Schedule-Next: purge\nNats-Scheduler: {s}.b"), pub("a", "ok"))},
		{name: "counter", config: "allow_msg_counter: true, discard: old", filler: "Nats-Incr: 1", refused: true, ungrouped: "a counter is a sum of what was before", steps: script(counter("any", "5"), counter("any", "-2"), counter("any", "+1"))},
		{name: "counter without an increment", config: "allow_msg_counter: true, discard: old", filler: "Nats-Incr: 1", refused: true, ungrouped: "a counter is a sum of what was before", steps: script(pub("a", "10169"), counter("10171", "many"), counter("10170", "1").body("x"))},
		{name: "increment of what is no counter", steps: script(counter("10168", "1"), pub("a", "ok"))},
		{name: "republish", config: "republish: {src: '{s}.>', dest: 'again.{s}.>'}", refused: true, ungrouped: "what is sent again would show the group", steps: script(pub("a", "ok"), pub("b", "ok").with("X: y"))},
		{name: "subject_transform", config: "subject_transform: {src: '{s}.in.*', dest: '{s}.out.{{wildcard(1)}}'}", steps: script(pub("in.a", "ok"), pub("a", "ok"), pub("out.a", "10071").with("Nats-Expected-Last-Subject-Sequence: 0"))},
		{name: "subject_delete_marker_ttl", config: "subject_delete_marker_ttl: 1h, allow_msg_ttl: true, allow_rollup_hdrs: true", steps: script(pub("a", "ok"), pub("a", "ok").with("Nats-Marker-Reason: Remove"))},
		{name: "allow_direct", config: "allow_direct: true", steps: script(pub("a", "ok"))},
	}
}

func batchRows() []behaviour {
	const atomic = "allow_atomic: true"
	long := []step{batchPart("a", "staged", "long", 1)}
	for n := 2; n <= 1001; n++ {
		long = append(long, batchPart("a", "none", "long", n).noReply(false))
	}
	fast := func(to, id string, n int, op int) step {
		return pub(to, "maybe").replyEnding(fmt.Sprintf(".own%s.5.fail.%d.%d.$FI", id, n, op))
	}
	return []behaviour{
		{name: "own batch", config: atomic, steps: script(wholeBatch("1"), pub("a", "ok"))},
		{name: "own batch of one", config: atomic, steps: script(batchPart("a", "ok*1", "1", 1).commit())},
		{name: "own batches one after the other", config: atomic, steps: script(wholeBatch("1"), wholeBatch("2"))},
		{name: "own batch without a commit", config: atomic, steps: script(batchPart("a", "staged", "1", 1), batchPart("b", "staged", "1", 2), pub("a", "ok"))},
		{name: "own batch with a gap", config: atomic, steps: script(batchPart("a", "staged", "1", 1), batchPart("b", "any", "1", 3), batchPart("c", "any", "1", 4).commit(), pub("a", "ok"))},
		{name: "own batch without a beginning", config: atomic, steps: script(batchPart("a", "10176", "1", 2), pub("a", "ok"))},
		{name: "own batch without a sequence", config: atomic, steps: script(pub("a", "10175").with("Nats-Batch-Id: own-1"), pub("a", "ok"))},
		{name: "own batch with a strange commit", config: atomic, steps: script(batchPart("a", "staged", "1", 1), batchPart("b", "any", "1", 2).and("Nats-Batch-Commit: yes"), pub("a", "ok"))},
		{name: "own batch with a long id", config: atomic, steps: script(pub("a", "10179").with("Nats-Batch-Id: own-"+longID+"\nNats-Batch-Sequence: 1"), pub("a", "ok"))},
		{name: "own batch that is too large", config: atomic, exact: true, sparse: true, steps: script(long, batchPart("a", "any", "long", 1002).commit(), pub("a", "ok"))},
		{name: "own batch with a duplicate", config: atomic, steps: script(pub("a", "ok").with("Nats-Msg-Id: 1"), batchPart("a", "staged", "1", 1), batchPart("a", "any", "1", 2).and("Nats-Msg-Id: 1").commit(), pub("a", "ok"))},
		{name: "own batch with an expectation that fails", config: atomic, steps: script(batchPart("a", "staged", "1", 1), batchPart("a", "any", "1", 2).and("Nats-Expected-Last-Subject-Sequence: 777777").commit(), pub("a", "ok"))},
		{name: "own batch with an expectation that holds", config: atomic, steps: script(batchPart("a", "staged", "1", 1).and("Nats-Expected-Last-Subject-Sequence: 0"), batchPart("b", "ok*2", "1", 2).commit())},
		{name: "own batch that is not allowed", config: "allow_atomic: false", refused: true, ungrouped: "the file forbids batches", steps: script(batchPart("a", "10174", "1", 1).commit(), pub("a", "ok"))},
		{name: "own fast batch", config: "allow_batched: true", exact: true, steps: script(fast("a", "f", 1, 0), fast("a", "f", 2, 1), fast("a", "f", 3, 2), pub("a", "ok"))},
		{name: "own fast batch that is not allowed", steps: script(fast("a", "f", 1, 0), pub("a", "ok"))},
		{name: "a reply that looks like a fast batch", config: "allow_batched: true", steps: script(pub("a", "any").replyEnding(".nonsense.$FI"), pub("a", "ok"))},
	}
}

var longID = fmt.Sprintf("%065d", 0)

func subjectRows() []behaviour {
	const some = "subjects: ['{s}.one', '{s}.two.*', '{s}.fill.>']"
	return []behaviour{
		{name: "literal and wildcard subjects", config: some, steps: script(pub("one", "ok"), pub("two.x", "ok"), pub("two.y", "ok"))},
		{name: "subjects beside the stream's", unseen: true, config: some, steps: script(pub("three", "503"), pub("two", "503"), pub("two.x.y", "503"), pub("one.x", "503"), pub("one", "ok"))},
		{name: "subjects beside the stream's that somebody hears", hears: true, strewn: true, config: some, steps: script(pub("three", "none"), pub("two.x.y", "none"), pub("one", "ok"))},
		{name: "subject of no stream", steps: script(pub("!nobody.{s}", "503"), pub("!nobody.{s}", "").noReply(false), pub("a", "ok"))},
		{name: "wildcard in the middle", unseen: true, config: "subjects: ['{s}.*.end.*', '{s}.fill.*']", steps: script(pub("a.end.b", "ok"), pub("a.b.end.c", "503"))},
		{name: "subjects of two lengths", config: "subjects: ['{s}.a', '{s}.a.>', '{s}.fill.>']", steps: script(pub("a", "ok"), pub("a.b", "ok"), pub("a.b.c", "ok"))},
	}
}

func lifeRows() []behaviour {
	return []behaviour{
		{name: "purge in between", steps: script(pub("a", "ok"), pub("a", "ok"), api("STREAM.PURGE", map[string]any{"filter": "none"}), pub("a", "ok"))},
		{name: "purge of all in between", exact: true, steps: script(pub("a", "ok"), pub("a", "ok"), api("STREAM.PURGE", nil), pub("a", "ok"))},
		{name: "deletion of a message in between", exact: true, steps: script(pub("a", "ok"), pub("a", "ok"), api("STREAM.MSG.DELETE", map[string]any{"seq": 1}), pub("a", "ok"))},
		{name: "a stream that is gone", exact: true, unseen: true, steps: script(pub("a", "ok"), api("STREAM.DELETE", nil), pub("a", "503"), pub("a", "").noReply(false))},
		{name: "a stream that is gone and somebody hears", hears: true, steps: script(pub("a", "ok"), api("STREAM.DELETE", nil), pub("a", "none"))},
		{name: "a stream that is sealed", exact: true, steps: script(pub("a", "ok"), update(map[string]any{"sealed": true}), pub("a", "10109"))},
		{name: "a limit that comes later", exact: true, steps: script(pub("a", "ok"), update(map[string]any{"max_msg_size": 5}), pub("a", "10054"), pub("a", "ok").body("small"))},
		{name: "subjects that change", exact: true, unseen: true, steps: script(pub("a", "ok"), update(map[string]any{"subjects": []string{"{s}.b"}}), pub("a", "503"), pub("b", "ok"))},
	}
}
