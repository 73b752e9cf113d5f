// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/cmd/bench/load"
	"github.com/holdfast-mq/holdfast/cmd/internal/child"
	"github.com/holdfast-mq/holdfast/cmd/internal/loopdisk"
)

// loadLimit is what a load may take besides its own time.
const loadLimit = 30 * time.Second

// queueRun measures every peer in every cell, on every file system.
type queueRun struct {
	*lab
	o       queueOptions
	out     io.Writer
	rng     *rand.Rand
	now     func() time.Time
	peers   []queuePeer
	places  []place
	results []*queueResult
	failed  int
}

// place is a file system to measure on.
type place struct {
	kind string
	dir  string
	disk *loopdisk.Disk // nil for -dir itself
}

// queueResult is a cell on one file system with one size of message.
type queueResult struct {
	FileSystem string `json:"file_system"`
	Bytes      int    `json:"bytes"`
	Cell       string `json:"cell"`
	// Samples has one for each pair, nil where a measurement failed.
	Samples map[string][]*queueSample `json:"samples"`

	cell  cell
	place place
}

// queueSample is one measurement; the memory is in bytes.
type queueSample struct {
	load.Result
	Idle  int64 `json:"idle,omitempty"`
	Peak  int64 `json:"peak,omitempty"`
	After int64 `json:"after,omitempty"`
}

func (q *queueRun) makePlaces(ctx context.Context) ([]place, error) {
	var out []place
	for _, kind := range q.o.kinds {
		if kind == onDirectory {
			out = append(out, place{kind: fileSystem(q.dir), dir: q.dir})
			continue
		}
		d, err := loopdisk.New(ctx, q.dir, kind, q.o.size<<20)
		if err == nil {
			err = d.Mount(ctx)
		}
		if err != nil {
			q.places = out
			return nil, errors.Join(fmt.Errorf("make file system: %w", err), q.leavePlaces(ctx))
		}
		out = append(out, place{kind: kind, dir: d.At, disk: d})
	}
	return out, nil
}

func (q *queueRun) leavePlaces(ctx context.Context) error {
	var err error
	for _, p := range q.places {
		if p.disk != nil {
			err = errors.Join(err, p.disk.Unmount(ctx))
		}
	}
	return err
}

func (q *queueRun) fileSystems() string {
	var out []string
	for _, p := range q.places {
		if p.disk != nil {
			out = append(out, p.kind+" in an image file on "+fileSystem(q.dir))
			continue
		}
		out = append(out, p.kind)
	}
	return strings.Join(out, ", ")
}

// measureAll goes through all cells once for each pair: when time runs out, or
// somebody has enough, all cells have the same number of pairs, give or take one.
func (q *queueRun) measureAll(ctx context.Context) error {
	for _, p := range q.places {
		for _, b := range q.o.bytes {
			for _, c := range queueCells(q.o.cells) {
				if c.memory && b != q.o.bytes[0] {
					continue
				}
				q.results = append(q.results, &queueResult{
					FileSystem: p.kind, Bytes: b, Cell: c.name, Samples: map[string][]*queueSample{}, cell: c, place: p,
				})
			}
		}
	}
	if len(q.results) == 0 {
		return fmt.Errorf("measure: nothing matches -cells %q", q.o.cells)
	}
	end := q.now().Add(q.o.within)
	for pair := range q.o.pairs {
		for i, r := range q.results {
			if q.now().After(end) {
				fmt.Fprintf(q.out, "stopped in pair %d of %d: the next cell would exceed -within %s\n", pair+1, q.o.pairs, q.o.within)
				return q.failures()
			}
			label := fmt.Sprintf("pair %d of %d, cell %d of %d", pair+1, q.o.pairs, i+1, len(q.results))
			if err := q.measureCell(ctx, r, label); err != nil {
				return err
			}
		}
	}
	return q.failures()
}

func (q *queueRun) failures() error {
	if q.failed > 0 {
		return fmt.Errorf("measure: %d measurements failed; the tables are of the others", q.failed)
	}
	return nil
}

// measureCell measures each peer once, in random order. What fails is left out; only
// the end of the run ends it.
func (q *queueRun) measureCell(ctx context.Context, r *queueResult, label string) error {
	peers := slices.Clone(q.peers)
	q.rng.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	got := map[string]*queueSample{}
	for _, p := range peers {
		if r.cell.memory && p.name != ours && p.name != stock {
			continue
		}
		s, err := q.measurePeer(ctx, r, p)
		if ctx.Err() != nil {
			return ctx.Err() // a pair that is not complete does not count
		}
		head := fmt.Sprintf("%s: %s %d B %s: %s", label, r.FileSystem, r.Bytes, r.Cell, p.name)
		if err != nil {
			q.failed++
			fmt.Fprintf(q.out, "%s: %v\n", head, err)
			continue
		}
		got[p.name] = s
		fmt.Fprintf(q.out, "%s: %s\n", head, s)
	}
	for _, p := range q.peers {
		r.Samples[p.name] = append(r.Samples[p.name], got[p.name])
	}
	return nil
}

func (s *queueSample) String() string {
	text := fmt.Sprintf("%.0f/s, p50 %s, p99 %s", s.PerSecond, milliseconds(s.P50), milliseconds(s.P99))
	if s.Peak > 0 {
		text += fmt.Sprintf(", memory %d, %d, %d MiB", s.Idle>>20, s.Peak>>20, s.After>>20)
	}
	return text
}

// measurePeer runs a new server on an empty directory, under load from another process.
func (q *queueRun) measurePeer(ctx context.Context, r *queueResult, p queuePeer) (_ *queueSample, err error) {
	dir, err := os.MkdirTemp(r.place.dir, "node-")
	if err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n, err := p.make(dir, r.cell)
	if err != nil {
		return nil, err
	}
	for _, cmd := range n.companions {
		child.Tied(cmd)
		c, err := child.Start(cmd, filepath.Join(q.dir, "companion.log"))
		if err != nil {
			return nil, err
		}
		defer kill(c)
	}
	server, _, err := q.start(ctx, n, true)
	if err != nil {
		return nil, err
	}
	defer kill(server)
	// What the one before has left to be written is not this one's burden.
	if _, err := exec.LookPath("sync"); err == nil {
		if _, err := q.output(ctx, "sync"); err != nil {
			return nil, err
		}
	}
	s := &queueSample{}
	if r.cell.memory {
		if s.Idle, err = resident(ctx, server); err != nil {
			return nil, err
		}
	}
	if s.Result, err = q.load(ctx, n.spec, r); err != nil {
		return nil, errors.Join(err, ended(server))
	}
	if !r.cell.memory {
		return s, nil
	}
	if s.Peak, err = peak(server); err != nil {
		return nil, err
	}
	s.After, err = resident(ctx, server)
	return s, err
}

// load runs the generator as a process of its own.
func (q *queueRun) load(ctx context.Context, s load.Spec, r *queueResult) (res load.Result, err error) {
	s.Queue, s.Bytes, s.Warm, s.Measure = queueName, r.Bytes, q.o.warm, q.o.take
	s.Publishers, s.Window, s.Workers = r.cell.publishers, r.cell.window, r.cell.workers
	spec, err := json.Marshal(s)
	if err != nil {
		return res, fmt.Errorf("encode specification: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return res, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, loadVerb)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stderr = q.env, bytes.NewReader(spec), &stderr
	out, err := cmd.Output()
	if err != nil {
		return res, fmt.Errorf("load: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := json.Unmarshal(out, &res); err != nil {
		return res, fmt.Errorf("read result: %w", err)
	}
	if res.PerSecond <= 0 {
		return res, errors.New("load: nothing was acknowledged within -take")
	}
	return res, nil
}

// ended is what a process had to say, if it is gone.
func ended(p *child.Process) error {
	select {
	case <-p.Ended:
		return fmt.Errorf("the server ended: %w\n%s", p.Status, p.LastWords())
	default:
		return nil
	}
}

func resident(ctx context.Context, p *child.Process) (int64, error) {
	m, err := settle(ctx, p)
	return m.rss, err
}

// peak is the most that a process has held so far.
func peak(p *child.Process) (int64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.Cmd.Process.Pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return procKilobytes(status, "VmHWM")
}
