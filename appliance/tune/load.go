// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The loads: what a disk is made to do, as a node makes it.
const (
	LoadFlush = "flush" // one stream that appends and flushes
	LoadBusy  = "busy"  // the same while somebody else writes
	LoadStorm = "storm" // the same, and nobody writes until the kernel does
	LoadChurn = "churn" // the same while blocks are made, read and deleted, as full streams do
	LoadScan  = "scan"  // blocks read from the disk one after the other, as at a start after a crash
)

const (
	message   = 4 << 10 // what is appended before a flush, in bytes
	blockSize = 8 << 20 // a file of a stream
	bulkWrite = 1 << 20 // one write of somebody else
	// pushEvery is after how much of it the kernel begins to write, as it does by
	// itself where memory is short.
	pushEvery = 16 << 20
)

// figure is something that a load yields.
type figure struct {
	name string
	unit string // "s" or "B/s"
	more bool   // more is better
}

// loadKind is a load with what it yields, of which the first is what decides.
type loadKind struct {
	figures []figure
	prepare func(context.Context, bench) error
	run     func(context.Context, bench) ([]float64, error)
}

func loads() map[string]loadKind {
	none := func(context.Context, bench) error { return nil }
	return map[string]loadKind{
		LoadFlush: {[]figure{{"flush, mean", "s", false}, {"flush, p99", "s", false}}, none, flushAlone},
		LoadBusy:  {[]figure{{"flush while others write, mean", "s", false}, {"flush while others write, p99", "s", false}}, none, flushBusy},
		LoadStorm: {[]figure{{"flush while the kernel writes much at once, mean", "s", false}, {"flush while the kernel writes much at once, p99", "s", false}}, none, flushStorm},
		LoadChurn: {[]figure{{"flush while blocks come and go, mean", "s", false}, {"flush while blocks come and go, p99", "s", false}}, none, flushChurn},
		LoadScan:  {[]figure{{"reading blocks", "B/s", true}}, writeBlocks, readBlocks},
	}
}

// bench is where a load runs.
type bench struct {
	dir   string
	each  time.Duration
	space int64 // bytes that may be written at once
}

func flushAlone(ctx context.Context, b bench) ([]float64, error) {
	took, err := flushes(ctx, b, time.Now().Add(b.each))
	if err != nil {
		return nil, err
	}
	return meanAndTail(took), nil
}

// flushBusy flushes while somebody else writes large files.
func flushBusy(ctx context.Context, b bench) ([]float64, error) {
	return flushBeside(ctx, b, func(until time.Time) error { return writeBulk(ctx, b, until, true) })
}

func flushStorm(ctx context.Context, b bench) ([]float64, error) {
	return flushBeside(ctx, b, func(until time.Time) error { return writeBulk(ctx, b, until, false) })
}

func flushChurn(ctx context.Context, b bench) ([]float64, error) {
	return flushBeside(ctx, b, func(until time.Time) error { return churn(ctx, b, until) })
}

func flushBeside(ctx context.Context, b bench, beside func(until time.Time) error) ([]float64, error) {
	until := time.Now().Add(b.each)
	var other error
	var running sync.WaitGroup
	running.Go(func() { other = beside(until) })
	took, err := flushes(ctx, b, until)
	running.Wait()
	if err := errors.Join(err, other); err != nil {
		return nil, err
	}
	return meanAndTail(took), nil
}

func meanAndTail(took []time.Duration) []float64 {
	var sum time.Duration
	for _, t := range took {
		sum += t
	}
	slices.Sort(took)
	return []float64{sum.Seconds() / float64(len(took)), took[len(took)*99/100].Seconds()}
}

// flushes appends to a file and flushes it, at least once.
func flushes(ctx context.Context, b bench, until time.Time) (took []time.Duration, err error) {
	f, err := os.OpenFile(filepath.Join(b.dir, "appended"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("measure flushes: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data := make([]byte, message)
	for at := int64(0); len(took) == 0 || time.Now().Before(until); at += message {
		begun := time.Now()
		if _, err := f.WriteAt(data, at%blockSize); err != nil {
			return nil, fmt.Errorf("measure flushes: %w", err)
		}
		if err := f.Sync(); err != nil {
			return nil, fmt.Errorf("measure flushes: %w", err)
		}
		took = append(took, time.Since(begun))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return took, nil
}

// writeBulk is a copy or a backup beside the node: it does not flush, and the kernel
// writes behind it, at once where it is pushed.
func writeBulk(ctx context.Context, b bench, until time.Time, push bool) (err error) {
	f, err := os.OpenFile(filepath.Join(b.dir, "bulk"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write beside: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	data := make([]byte, bulkWrite)
	for i := range data {
		data[i] = byte(i * 31)
	}
	for at := int64(0); time.Now().Before(until) && ctx.Err() == nil; at += bulkWrite {
		if _, err := f.WriteAt(data, at%b.space); err != nil {
			return fmt.Errorf("write beside: %w", err)
		}
		if push && (at+bulkWrite)%pushEvery == 0 {
			if err := begin(f); err != nil {
				return fmt.Errorf("write beside: %w", err)
			}
		}
	}
	return nil
}

// churn makes blocks, reads and deletes them, and keeps a few.
func churn(ctx context.Context, b bench, until time.Time) error {
	const kept = 4
	data := make([]byte, blockSize)
	for i := int64(0); time.Now().Before(until) && ctx.Err() == nil; i++ {
		f, err := os.Create(b.block(i))
		if err == nil {
			_, err = f.Write(data)
			err = errors.Join(err, f.Sync(), f.Close())
		}
		if err == nil {
			_, err = os.ReadFile(b.block(i))
		}
		if err == nil && i >= kept {
			err = os.Remove(b.block(i - kept))
		}
		if err != nil {
			return fmt.Errorf("make and delete blocks: %w", err)
		}
	}
	return nil
}

func (b bench) block(i int64) string { return filepath.Join(b.dir, strconv.FormatInt(i, 10)+".blk") }

func (b bench) blocks() int64 { return max(b.space/blockSize, 1) }

// writeBlocks writes what readBlocks reads, and flushes it: only what is on the disk can
// be forgotten.
func writeBlocks(ctx context.Context, b bench) error {
	data := make([]byte, blockSize)
	for i := range b.blocks() {
		for j := range data {
			data[j] = byte(int64(j)*31 + i)
		}
		f, err := os.Create(b.block(i))
		if err == nil {
			_, err = f.Write(data)
			err = errors.Join(err, f.Sync(), f.Close())
		}
		if err != nil {
			return fmt.Errorf("write blocks: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// readBlocks reads each block whole with one read, as the server does.
func readBlocks(ctx context.Context, b bench) ([]float64, error) {
	data := make([]byte, blockSize)
	var read int64
	var took time.Duration
	until := time.Now().Add(b.each)
	for i := int64(0); read == 0 || time.Now().Before(until); i++ {
		n, d, err := readBlock(b.block(i%b.blocks()), data)
		if err != nil {
			return nil, fmt.Errorf("read blocks: %w", err)
		}
		read, took = read+n, took+d
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return []float64{float64(read) / took.Seconds()}, nil
}

func readBlock(path string, data []byte) (n int64, took time.Duration, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if err := forget(f); err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if _, err := io.ReadFull(f, data); err != nil {
		return 0, 0, err
	}
	return int64(len(data)), time.Since(begun), nil
}
