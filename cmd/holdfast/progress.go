// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

const (
	// progressEvery is how often a terminal shows how far an apply is, the first time
	// when it takes as long; linesEvery of them make a line elsewhere.
	progressEvery = time.Second
	linesEvery    = 5
)

// progress shows how far something is, when that takes a while. Its goroutine ends
// with stop, which waits for it.
type progress struct {
	w        io.Writer
	terminal bool
	text     func(took time.Duration) string
	done     chan struct{}
	ended    chan struct{}
}

func newProgress(w io.Writer, terminal bool, text func(took time.Duration) string) *progress {
	p := &progress{w: w, terminal: terminal, text: text, done: make(chan struct{}), ended: make(chan struct{})}
	go p.tell(time.Now())
	return p
}

func (p *progress) stop() {
	close(p.done)
	<-p.ended
}

func (p *progress) tell(since time.Time) {
	defer close(p.ended)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	width := 0
	for n := 0; ; n++ {
		select {
		case <-p.done:
			if width > 0 {
				// What follows begins on an empty line.
				fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", width))
			}
			return
		case <-tick.C:
		}
		text := p.text(time.Since(since))
		switch {
		case p.terminal:
			fmt.Fprintf(p.w, "\r%-*s", width, text)
			width = max(width, len(text))
		case n%linesEvery == 0:
			fmt.Fprintln(p.w, text)
		}
	}
}

// applyProgress is how far the node is with an apply.
type applyProgress struct {
	mu  sync.Mutex
	now admin.Progress
}

// set takes over what the node says.
func (p *applyProgress) set(now admin.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
}

func (p *applyProgress) text(took time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.Total == 0 {
		return fmt.Sprintf("applying, %v", took.Round(time.Second))
	}
	text := fmt.Sprintf("applying: %s of %s, %v", thousands(p.now.Done), thousands(p.now.Total), took.Round(time.Second))
	if p.now.Now != "" {
		text += ", " + p.now.Now
	}
	return text
}
