// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

// settling is how long what was made from the copy may take to come up.
const settling = 15 * time.Second

// whole returns the stream when it has all that its copy has. One that was cut
// short is made once more.
func (r *recreation) whole(ctx context.Context, rec record) (*existing, error) {
	for try := 1; ; try++ {
		s, err := r.present(ctx)
		if err != nil {
			return nil, err
		}
		if !isParkedAt(s.Config, parkedSubject(r.stream)) {
			return s, nil
		}
		why, behind, err := r.settled(ctx, rec)
		if err != nil || why == "" || behind && try == restoreTries {
			return s, err
		}
		if try == restoreTries {
			return nil, refuse(fmt.Sprintf("all is kept in %q: run `holdfast apply` again, and if this stays, see the log of the node", bootstrap.CopyName(r.stream)),
				"what was made from the copy is not whole: %s", why)
		}
		if err := r.discard(ctx); err != nil {
			return nil, err
		}
		if err := r.restoreOnce(ctx, rec); err != nil && try == restoreTries-1 {
			return nil, err
		}
	}
}

// settled is lacks once there is nothing to wait for: in a cluster the consumers
// of a stream that was restored come up after it.
func (r *recreation) settled(ctx context.Context, rec record) (why string, behind bool, err error) {
	for end := time.Now().Add(settling); ; {
		s, err := r.c.lookup(ctx, r.account, r.stream)
		if err == nil && s == nil {
			return "it is gone", false, nil
		}
		if err == nil {
			why, behind, err = r.lacks(ctx, s, rec)
		}
		if err == nil && why == "" || time.Now().After(end) {
			return why, behind, err
		}
		if err := pauseFor(ctx, drainStep); err != nil {
			return "", false, err
		}
	}
}

// lacks says what the stream does not have of what the record says, "" if it has
// all. behind is true when all that is wrong is that messages are delivered again.
func (r *recreation) lacks(ctx context.Context, s *existing, rec record) (why string, behind bool, err error) {
	if s.State.LastSeq != rec.Last {
		return fmt.Sprintf("it ends at sequence %d instead of %d", s.State.LastSeq, rec.Last), false, nil
	}
	consumers, err := r.c.consumers(ctx, r.account, r.stream)
	if err != nil {
		return "", false, err
	}
	want, err := r.restored(ctx, rec)
	if err != nil {
		return "", false, err
	}
	for _, w := range want {
		i := slices.IndexFunc(consumers, func(o listed) bool { return o.Name == w.Name })
		if i < 0 && w.Config["durable_name"] == nil {
			continue // its client is gone, and so may it be
		}
		if i < 0 {
			return fmt.Sprintf("consumer %q is missing", w.Name), false, nil
		}
		have := consumers[i].State
		if have.AckFloor.Stream > w.State.AckFloor.Stream || have.Delivered.Stream > w.State.Delivered.Stream {
			return fmt.Sprintf("consumer %q is at sequence %d instead of %d", w.Name, have.AckFloor.Stream, w.State.AckFloor.Stream), false, nil
		}
		behind = behind || have.Delivered.Stream < w.State.Delivered.Stream || have.AckFloor.Stream < w.State.AckFloor.Stream
	}
	if behind {
		return "a consumer is behind", true, nil
	}
	return "", false, nil
}
