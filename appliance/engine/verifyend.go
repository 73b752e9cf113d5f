// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
)

// end finds what the server has stored, and no block has.
func (s *scrub) end(ctx context.Context, in *inspection, before fate) error {
	if s.still && !in.clean {
		return nil
	}
	lost := func(now fate) (SeqRange, bool) {
		r := SeqRange{max(in.end+1, now.first), now.last}
		return r, now.messages > 0 && r.From <= r.To
	}
	if s.still {
		if r, ok := lost(fate{1, in.known.First, in.known.Last}); ok {
			s.damaged(in, &repair{index: lastOf(in.blocks), damage: Damage{What: "the end of the stream is gone", Lost: []SeqRange{r}}})
		}
		return nil
	}
	r, short := lost(before)
	for look := 1; short && look < looks; look++ {
		if !wait(ctx, s.settle) {
			return context.Cause(ctx)
		}
		now, alive, err := s.fate(in.key, true)
		if err != nil || !alive {
			return err
		}
		// What was listed may be gone, and what came after it not have been looked at.
		if err := in.goOn(); err != nil {
			return err
		}
		r, short = lost(fate{now.messages, now.first, min(now.last, before.last)})
	}
	if short {
		s.damaged(in, &repair{index: lastOf(in.blocks), damage: Damage{What: "the end of the stream is gone", Lost: []SeqRange{r}}})
	}
	return nil
}

func lastOf(blocks []int) int {
	if len(blocks) == 0 {
		return 0
	}
	return blocks[len(blocks)-1]
}

// goOn looks how far the last blocks go by now.
func (s *inspection) goOn() error {
	blocks, _, err := storedBlocks(filepath.Join(s.dir, messagesDir))
	if err != nil {
		return err
	}
	before := lastOf(s.blocks)
	for _, index := range blocks {
		if index < before {
			continue
		}
		r, err := s.read(index)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		s.end = max(s.end, r.scan(s.last).known)
	}
	return nil
}
