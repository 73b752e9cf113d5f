// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/holdfast-mq/holdfast/cmd/bench/acks"
	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

const (
	ackedPerSecond = "msg/s"
	// ackMessages go through each design in each workload: a second or so of the slowest.
	ackMessages = 4000
)

// acknowledging measures designs for the acknowledging side of a work queue. Each pair is
// all of them and the stock server once, beginning with another one each time.
func (l *lab) acknowledging() measurement {
	m := measurement{name: "acks"}
	designs := acks.Others()
	for _, w := range acks.Workloads() {
		for _, d := range designs {
			m.figures = append(m.figures, figure{ackKey(d, w), w.Name + ": " + d.Name, ackedPerSecond})
		}
	}
	var turn atomic.Int64
	m.ours = side{"designs", func(ctx context.Context) (sample, error) {
		got, first := sample{}, int(turn.Add(1)-1)
		for i := range designs {
			d := designs[(first+i)%len(designs)]
			if err := l.acksOf(ctx, d, func(w acks.Workload, v float64) { got[ackKey(d, w)] = v }); err != nil {
				return nil, err
			}
		}
		return got, nil
	}}
	stock := acks.Stock()
	m.peer = side{"nats-server, " + stock.Name, func(ctx context.Context) (sample, error) {
		got := sample{}
		err := l.acksOf(ctx, stock, func(w acks.Workload, v float64) {
			for _, d := range designs {
				got[ackKey(d, w)] = v
			}
		})
		return got, err
	}}
	return m
}

func ackKey(d acks.Design, w acks.Workload) string { return w.Key + ", " + d.Key }

// acksOf puts one design through all workloads, each on an empty server.
func (l *lab) acksOf(ctx context.Context, d acks.Design, tell func(acks.Workload, float64)) error {
	for _, w := range acks.Workloads() {
		v, err := l.acksOnce(ctx, d, w)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", d.Name, w.Name, err)
		}
		tell(w, v)
	}
	return nil
}

func (l *lab) acksOnce(ctx context.Context, d acks.Design, w acks.Workload) (_ float64, err error) {
	dir, err := os.MkdirTemp(l.dir, "acks-")
	if err != nil {
		return 0, fmt.Errorf("make data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ports, err := child.FreePorts(1)
	if err != nil {
		return 0, err
	}
	n := &stockNode{binary: l.stock, file: filepath.Join(dir, "nats-server.conf"), port: ports[0]}
	if err := writeFile(n.file, d.ServerFile(filepath.Join(dir, "data"), n.port)); err != nil {
		return 0, err
	}
	p, _, err := l.start(ctx, n, false)
	if err != nil {
		return 0, err
	}
	// Killed, because its data goes.
	defer kill(p)
	return acks.Run(ctx, d, w, fmt.Sprintf("nats://127.0.0.1:%d", n.port), ackMessages)
}
