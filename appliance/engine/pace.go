// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// pace keeps reading to a rate.
type pace struct {
	rate int64 // bytes per second; 0 for no bound
	due  time.Time
}

// rest waits until as much may be read again as was read just now. What was not used of
// the rate is not made up for.
func (p *pace) rest(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return context.Cause(ctx)
	}
	now := time.Now()
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	if !wait(ctx, time.Until(p.due)) {
		return context.Cause(ctx)
	}
	return nil
}

// wait returns false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// blocksSize is the size of the blocks of the stream in a directory.
func blocksSize(dir string) int64 {
	var sum int64
	blocks, _, _ := storedBlocks(filepath.Join(dir, messagesDir))
	for _, index := range blocks {
		if info, err := os.Stat(blockPath(dir, index)); err == nil {
			sum += info.Size()
		}
	}
	return sum
}
