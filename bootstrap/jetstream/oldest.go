// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const codeNoMessage = 10037

// Age is that of the oldest unacknowledged message of a consumer. Some is false when there
// is none.
type Age struct {
	Oldest time.Duration
	Some   bool
	Err    error
}

// Ages are those of all consumers that were observed, by ACCOUNT/STREAM/CONSUMER.
func (c *Client) Ages(ctx context.Context, observed bootstrap.Observed, now time.Time) map[string]Age {
	type question struct {
		account, stream, path string
		consumer              bootstrap.ObservedConsumer
	}
	var questions []question
	for account, a := range observed.Accounts {
		for stream, s := range a.Streams {
			for name, o := range s.Consumers {
				if o.Unavailable == "" {
					questions = append(questions, question{account, stream, account + "/" + stream + "/" + name, o})
				}
			}
		}
	}
	ages := make([]Age, len(questions))
	parallel(len(questions), func(i int) {
		q, a := questions[i], &ages[i]
		a.Oldest, a.Some, a.Err = c.OldestUnacknowledged(ctx, q.account, q.stream, q.consumer, now)
	})
	out := make(map[string]Age, len(questions))
	for i, q := range questions {
		out[q.path] = ages[i]
	}
	return out
}

// OldestUnacknowledged returns the age of the oldest stored message that the
// consumer has not acknowledged, delivered or not, or ok = false when there is
// none. It finds messages that used up max_deliver too, which the server counts
// neither as pending nor as unacknowledged, with one exception: outside a work
// queue, one that the acknowledgement floor has passed.
func (c *Client) OldestUnacknowledged(ctx context.Context, account, stream string, consumer bootstrap.ObservedConsumer, now time.Time) (age time.Duration, ok bool, err error) {
	from := consumer.State.AckFloor.Stream + 1
	if consumer.WorkQueue {
		// The floor jumps over a message that used up max_deliver, but the message
		// is still there, and only acknowledged ones are not.
		from = 1
	}
	var oldest time.Time
	for _, filter := range filtersOf(consumer.Config) {
		var got struct {
			Message struct {
				Time time.Time `json:"time"`
			} `json:"message"`
		}
		req := map[string]any{"seq": from, "next_by_subj": filter, "no_hdr": true}
		err := c.request(ctx, account, "STREAM.MSG.GET."+stream, req, &got)
		if code(err) == codeNoMessage {
			continue
		}
		if err != nil {
			return 0, false, diag.Fail(diag.CodeObserve,
				fmt.Errorf("find oldest message of stream %q in account %q: %w", stream, account, err), observeHint(err))
		}
		if at := got.Message.Time; oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	if oldest.IsZero() {
		return 0, false, nil
	}
	// A clock that was set back since must not give a negative age.
	return max(now.Sub(oldest), 0), true, nil
}

func filtersOf(config map[string]any) []string {
	if one, _ := config["filter_subject"].(string); one != "" {
		return []string{one}
	}
	many, _ := config["filter_subjects"].([]any)
	if len(many) == 0 {
		return []string{">"}
	}
	filters := make([]string, len(many))
	for i, f := range many {
		filters[i], _ = f.(string)
	}
	return filters
}
