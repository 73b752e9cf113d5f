// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// block is what is appended before each flush, in bytes: about a message of
	// JetStream, rounded up to what disks write.
	block = 4 << 10
	// large is one write of the sequential part, in bytes.
	large = 1 << 20
	// leftover is the beginning of the directories that measurements work in.
	leftover = "bench-disk-"
	// stale is when a directory is no longer a measurement's that runs.
	stale = 10 * time.Minute
)

// Plan says how to measure.
type Plan struct {
	Dir string        // a directory on the disk
	For time.Duration // of each step
	// Space bounds what is written at once, in bytes.
	Space int64
	// AtOnce are the numbers of concurrent flushes to try.
	AtOnce []int
	// Step, if not nil, is told what is measured now.
	Step func(what string)
}

// Measurement is what a disk did. Times are in seconds for the JSON that it is kept as.
type Measurement struct {
	At         time.Time `json:"at"`
	Dir        string    `json:"dir"`
	FileSystem string    `json:"file_system"` // set by the caller
	Flush      Latency   `json:"flush"`       // of an append of 4 KiB and its flush, one after the other
	AtOnce     []AtOnce  `json:"at_once"`     // several at once, each in a file of its own
	// Sequential is how fast large writes go, the flush at the end included.
	Sequential float64 `json:"sequential_bytes_per_second"`
	Device     Device  `json:"device"`
	Trust      Trust   `json:"trust"`
}

// Kept reads a measurement from the file that it was kept in; nil when there is none
// that can be read.
func Kept(path string) *Measurement {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var m Measurement
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	return &m
}

// Latency is how long something took, in seconds.
type Latency struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_seconds"`
	P99   float64 `json:"p99_seconds"`
	Max   float64 `json:"max_seconds"`
}

// AtOnce is how many flushes a second a number of files get together.
type AtOnce struct {
	Files   int     `json:"files"`
	Flushes float64 `json:"flushes_per_second"`
	P50     float64 `json:"p50_seconds"`
}

// Measure measures the disk that a directory is on. It leaves nothing behind, and
// removes what a measurement left that was killed.
func Measure(ctx context.Context, p Plan) (_ Measurement, err error) {
	if err := removeStale(p.Dir, time.Now()); err != nil {
		return Measurement{}, err
	}
	dir, err := os.MkdirTemp(p.Dir, leftover)
	if err != nil {
		return Measurement{}, fmt.Errorf("measure the disk: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m := Measurement{At: time.Now().UTC().Truncate(time.Second), Dir: p.Dir, Device: deviceOf(dir)}
	p.Dir = dir

	p.tell("flushes, one after the other")
	before := m.Device.flushes()
	took, err := flushing(ctx, p, 1)
	if err != nil {
		return Measurement{}, err
	}
	m.Flush = latency(took)
	sent := m.Device.flushes()
	if sent >= 0 {
		sent -= before
	}
	m.Trust = judge(m.Device, m.Flush, sent)
	for _, n := range p.AtOnce {
		p.tell(fmt.Sprintf("flushes of %d files at once", n))
		begun := time.Now()
		if took, err = flushing(ctx, p, n); err != nil {
			return Measurement{}, err
		}
		m.AtOnce = append(m.AtOnce, AtOnce{n, float64(len(took)) / time.Since(begun).Seconds(), latency(took).P50})
	}
	p.tell("large writes")
	m.Sequential, err = sequential(ctx, p)
	return m, err
}

// deviceOf is the first disk below a directory: flushes go to every disk of several.
func deviceOf(dir string) Device {
	var s System
	m, err := s.MountOf(dir)
	if err != nil {
		return Device{}
	}
	if disks := s.Below(m).Disks; len(disks) > 0 {
		return disks[0]
	}
	return Device{}
}

func (p Plan) tell(what string) {
	if p.Step != nil {
		p.Step(what)
	}
}

// flushing appends and flushes in files at once, and returns how long each took.
func flushing(ctx context.Context, p Plan, files int) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var errs []error
	var running sync.WaitGroup
	until := time.Now().Add(p.For)
	for i := range files {
		running.Go(func() {
			took, err := flushOne(ctx, filepath.Join(p.Dir, strconv.Itoa(i)), until, p.Space/int64(files))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	running.Wait()
	return all, errors.Join(errs...)
}

func flushOne(ctx context.Context, path string, until time.Time, space int64) (took []time.Duration, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("measure flushes: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data := make([]byte, block)
	for at := int64(0); len(took) == 0 || time.Now().Before(until); at += block {
		if at+block > space {
			at = 0
		}
		begun := time.Now()
		if _, err := f.WriteAt(data, at); err != nil {
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

// sequential returns bytes per second.
func sequential(ctx context.Context, p Plan) (_ float64, err error) {
	f, err := os.OpenFile(filepath.Join(p.Dir, "sequential"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("measure large writes: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data := make([]byte, large)
	for i := range data {
		data[i] = byte(i * 31) // nothing that a disk could leave out
	}
	begun, written := time.Now(), int64(0)
	for time.Since(begun) < p.For && written+large <= p.Space {
		n, err := f.Write(data)
		if err != nil {
			return 0, fmt.Errorf("measure large writes: %w", err)
		}
		written += int64(n)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("measure large writes: %w", err)
	}
	return float64(written) / time.Since(begun).Seconds(), nil
}

func latency(took []time.Duration) Latency {
	if len(took) == 0 {
		return Latency{}
	}
	slices.Sort(took)
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))].Seconds() }
	return Latency{Count: len(took), P50: at(0.5), P99: at(0.99), Max: at(1)}
}

// Durable estimates how many small messages a second are durable with one publisher,
// and with 64 that wait at the same time and share flushes (docs/adr/0007), by what a
// flush takes. The computing is that of a small machine.
func Durable(flush time.Duration) (one, many float64) {
	const alone, shared = 60 * time.Microsecond, 80 * time.Microsecond // computing for a message
	one = 1 / (flush + alone).Seconds()
	return one, max(one, 64/(2*flush+64*shared).Seconds())
}

func removeStale(dir string, now time.Time) error {
	found, err := filepath.Glob(filepath.Join(dir, leftover+"*"))
	if err != nil {
		return fmt.Errorf("look for what a measurement left: %w", err)
	}
	for _, path := range found {
		info, err := os.Stat(path)
		if err == nil && now.Sub(info.ModTime()) > stale {
			err = os.RemoveAll(path)
		}
		if err != nil {
			return fmt.Errorf("remove what a measurement left: %w", err)
		}
	}
	return nil
}
