// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"regexp"
	"strconv"
	"strings"
)

// The subjects that lead through ingest. They are outside of what applications use.
const (
	// Own is all of them but one: answers to marks come to an inbox.
	Own = ownPrefix + ">"

	ownPrefix    = "_hf."
	inPrefix     = "_hf.in."   // _hf.in.STREAM.<subject>: from publishers to ingest
	outPrefix    = "_hf.out."  // _hf.out.SECRET.<subject>: from ingest to the stream
	ackInPrefix  = "_hf.ack."  // _hf.ack.STREAM.CONSUMER.…: acknowledgements from workers to ingest
	wakePrefix   = "_hf.wake." // answers that nobody wants
	answerPrefix = "_hf.re."   // answers of the server to ingest

	apiPrefix = "$JS.API."
	ackPrefix = "$JS.ACK."

	// batchPrefix begins the batch IDs of ingest, which stay in stored messages.
	batchPrefix = "_hf-"
)

// Mapping leads what is published on From to To, in an account.
type Mapping struct{ From, To string }

// Mappings are those that lead what is published for these lanes through ingest, and
// from ingest to the streams. secret keeps others from publishing past it.
func Mappings(secret string, lanes []Lane) []Mapping {
	if len(lanes) == 0 {
		return nil
	}
	out := []Mapping{WayBack(secret)}
	for _, l := range lanes {
		for _, s := range l.Subjects {
			out = append(out, Mapping{s, inPrefix + l.Stream + "." + destination(s)})
		}
		if l.Consumer != "" {
			of := l.Stream + "." + l.Consumer + ".>"
			out = append(out, Mapping{ackPrefix + of, ackInPrefix + of})
		}
	}
	return out
}

// WayBack is the mapping from ingest to the streams.
func WayBack(secret string) Mapping { return Mapping{outPrefix + secret + ".>", ">"} }

// Replicated are the lanes of a node in a cluster to which these mappings lead, of whoever
// made them.
func Replicated(mappings []Mapping) []Lane {
	var out []Lane
	at := make(map[string]int)
	lane := func(stream string) *Lane {
		i, ok := at[stream]
		if !ok {
			i, at[stream] = len(out), len(out)
			out = append(out, Lane{Stream: stream, Replicated: true})
		}
		return &out[i]
	}
	for _, m := range mappings {
		if rest, ok := strings.CutPrefix(m.To, inPrefix); ok {
			stream, _, _ := strings.Cut(rest, ".")
			l := lane(stream)
			l.Subjects = append(l.Subjects, m.From)
		} else if rest, ok := strings.CutPrefix(m.To, ackInPrefix); ok {
			stream, rest, _ := strings.Cut(rest, ".")
			lane(stream).Consumer, _, _ = strings.Cut(rest, ".")
		}
	}
	return out
}

// destination is a subject pattern as it stands in the target of a mapping.
func destination(subject string) string {
	tokens := strings.Split(subject, ".")
	n := 0
	for i, t := range tokens {
		if t == "*" {
			n++
			tokens[i] = "{{wildcard(" + strconv.Itoa(n) + ")}}"
		}
	}
	return strings.Join(tokens, ".")
}

// AsPublished returns a text, or a subject, with the subjects that clients used in place
// of those that mappings led them to. What a user may not publish, the server tells of
// by the latter.
func AsPublished(text string) string {
	if !strings.Contains(text, ownPrefix) {
		return text
	}
	text = ledIn.ReplaceAllString(text, "$1")
	return ledAck.ReplaceAllString(text, "${1}$$JS.ACK.")
}

// A subject stands at the begin, after a blank, or in quotation marks or brackets.
var (
	ledIn  = regexp.MustCompile("(^|[\\s\"'`(\\[])" + regexp.QuoteMeta(inPrefix) + `[^\s.]+\.`)
	ledAck = regexp.MustCompile("(^|[\\s\"'`(\\[])" + regexp.QuoteMeta(ackInPrefix))
)
