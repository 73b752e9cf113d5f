// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"errors"
)

// createHint says what a person can do about a refused creation.
func createHint(err error) string {
	if hint := hintFor(code(err)); hint != "" {
		return hint
	}
	switch {
	case errors.Is(err, errNoJetStream):
		return "JetStream is starting, or was stopped after a disk error: `holdfast status` and the log say which"
	case errors.Is(err, context.DeadlineExceeded):
		return "the server was too slow or lost its quorum; it is tried again by itself, and `holdfast status` shows the state"
	case code(err) == 0:
		return "it is tried again by itself; if it stays, see the log of the node"
	}
	return "correct the fields of this object in the file; the number in brackets is the server's error code"
}

// hintFor is the table of the server's error codes that people meet.
func hintFor(errCode int) string {
	switch errCode {
	case 10005:
		return "no server of the cluster fits: check num_replicas, placement and the tags of the nodes, and that all nodes are up"
	case 10008, 10007, 10009:
		return "the cluster has no leader yet; it is tried again by itself once most nodes are up"
	case 10002, 10122:
		return "the account's limits are used up: raise limits under the account, or lower max_bytes of its streams"
	case 10023, 10047:
		return "the sum of all max_bytes is larger than the storage: raise storage.limit or the account's limits.disk, or lower max_bytes"
	case 10025:
		return "the server does not know one of these fields in this version; remove it"
	case 10026:
		return "raise max_consumers of the stream, or limits.consumers of the account"
	case 10027:
		return "raise limits.streams of the account"
	case 10028:
		return "memory storage is used up: use storage: file, or lower max_bytes"
	case 10034:
		return "the stream is a copy of another one on the server and the file does not say so: write `mirror: {}` to make it a stream of its own, or the mirror that it has"
	case 10069:
		return "give the consumers that are named a max_ack_pending and an inactive_threshold within consumer_limits"
	case noAccount:
		return "a node that is to keep it does not know the account yet; it is tried again by itself, and `holdfast cluster status` shows the nodes"
	case 10039:
		return "the account has no JetStream: give it limits.disk, or move its streams to another account"
	case 10052:
		return "two fields of the stream do not go together; the sentence before the code says which"
	case 10012:
		return "two fields of the consumer do not go together; the sentence before the code says which"
	case 10058:
		return "somebody made a stream of this name in the meantime; the next comparison shows how it differs"
	case 10148, 10013, 10105:
		return "somebody made a consumer of this name in the meantime; the next comparison shows how it differs"
	case 10059:
		return "the stream is gone: somebody deleted it while the plan ran; run it again"
	case 10065:
		return "another stream of the account takes one of these subjects already: `holdfast nats stream ls --subject SUBJECT` shows which; a subject belongs to one stream, so to swap subjects give one of the streams another first"
	case 10074:
		return "a single node keeps one copy: set num_replicas to 1 or auto, or make a cluster"
	case 10084, 10098:
		return "a work queue needs ack_policy: explicit"
	case 10093:
		return "filter_subject has to lie within the subjects of the stream"
	case 10099:
		return "a work queue has one consumer, or several whose filters share no subject: give each a filter_subject, or use retention: interest"
	case 10100:
		return "another consumer of this work queue takes the same subjects: give each a filter that overlaps with no other, or use retention: interest"
	case 10101:
		return "a work queue needs deliver_policy: all"
	case 10113:
		return "the account requires a byte limit: set max_bytes"
	case 10116:
		return "max_deliver has to be larger than the number of backoff steps"
	case 10126, 10134:
		return "set num_replicas of the consumer to that of the stream, or leave it out"
	case 10138:
		return "filters of one consumer may not overlap: remove the narrower one"
	}
	return ""
}
