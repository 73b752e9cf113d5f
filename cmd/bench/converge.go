// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// firstNote and secondNote are what a change of all streams changes.
	firstNote  = "as created"
	secondNote = "as changed"
	// differs is the exit code of a plan that has something to do.
	differs = 3
)

// convergence is the life of both sides: a running node without streams gets all of
// them, is compared, and has one field of each changed.
func (l *lab) convergence(ctx context.Context, newNode func(dir string, s size) (node, error), work func(context.Context, node, string) (sample, error)) (_ sample, err error) {
	dir, err := os.MkdirTemp(l.dir, "node-")
	if err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n, err := newNode(dir, size{})
	if err != nil {
		return nil, err
	}
	p, _, err := l.start(ctx, n, true)
	if err != nil {
		return nil, err
	}
	defer kill(p)
	got, err := work(ctx, n, dir)
	if err != nil {
		return nil, err
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.Cmd.Process.Pid) + "/status")
	if err != nil {
		return got, nil // not on this system
	}
	peak, err := procKilobytes(status, "VmHWM")
	got["peak"] = float64(peak) / (1 << 20)
	return got, err
}

// convergeHoldfast has the verbs do it, each a process of its own.
func (l *lab) convergeHoldfast(ctx context.Context, n node, dir string) (sample, error) {
	h, ok := n.(*holdfastNode)
	if !ok {
		return nil, errors.New("converge: not a Holdfast node")
	}
	all := size{streams: l.size.streams}
	first, second := filepath.Join(dir, "first.yaml"), filepath.Join(dir, "second.yaml")
	for file, note := range map[string]string{first: firstNote, second: secondNote} {
		all.note = note
		if err := writeFile(file, holdfastFile(filepath.Join(dir, "data"), h.client, h.http, all)); err != nil {
			return nil, err
		}
	}
	got := sample{}
	for _, step := range []struct {
		key  string
		code int
		args []string
	}{
		{"create", 0, []string{"apply", "--yes", first}},
		{"compare", 0, []string{"plan", first}},
		{"plan", differs, []string{"plan", second}},
		{"update", 0, []string{"apply", "--yes", second}},
	} {
		begun := time.Now()
		_, err := l.output(ctx, l.holdfast, append(step.args, "--config", h.file)...)
		got[step.key] = time.Since(begun).Seconds()
		code := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		}
		if code != step.code || code == 0 && err != nil {
			return nil, fmt.Errorf("%s: got exit code %d, want %d: %w", step.key, code, step.code, err)
		}
	}
	return got, verifyNotes(ctx, h.client, all.streams, nats.UserCredentials(h.creds))
}

// convergeStock has a plain client do it, one request after the other. Comparing is
// reading each stream: what a script has to do before it knows what to change.
func (l *lab) convergeStock(ctx context.Context, n node, _ string) (sample, error) {
	s, ok := n.(*stockNode)
	if !ok {
		return nil, errors.New("converge: not a nats-server")
	}
	all, got := size{streams: l.size.streams}, sample{}
	for _, step := range []struct {
		key string
		do  func(js jetstream.JetStream, i int) error
	}{
		{"create", func(js jetstream.JetStream, i int) error {
			_, err := js.CreateStream(ctx, all.config(i, firstNote))
			return err
		}},
		{"compare", func(js jetstream.JetStream, i int) error { return differing(ctx, js, all, i, firstNote) }},
		{"plan", func(js jetstream.JetStream, i int) error { return differing(ctx, js, all, i, firstNote) }},
		{"update", func(js jetstream.JetStream, i int) error {
			_, err := js.UpdateStream(ctx, all.config(i, secondNote))
			return err
		}},
	} {
		begun := time.Now()
		nc, js, err := connect(s.port)
		if err != nil {
			return nil, err
		}
		for i := range all.streams {
			if err := step.do(js, i); err != nil {
				nc.Close()
				return nil, fmt.Errorf("%s stream %q: %w", step.key, all.stream(i), err)
			}
		}
		nc.Close()
		got[step.key] = time.Since(begun).Seconds()
	}
	return got, verifyNotes(ctx, s.port, all.streams)
}

func (s size) config(i int, note string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: s.stream(i), Subjects: []string{s.subject(i)}, MaxBytes: streamBytes, Discard: jetstream.DiscardNew, Description: note,
	}
}

func differing(ctx context.Context, js jetstream.JetStream, s size, i int, note string) error {
	stream, err := js.Stream(ctx, s.stream(i))
	if err != nil {
		return err
	}
	if got := stream.CachedInfo().Config; got.Description != note || got.MaxBytes != streamBytes {
		return fmt.Errorf("got description %q and max_bytes %d, want %q and %d", got.Description, got.MaxBytes, note, streamBytes)
	}
	return nil
}

// verifyNotes fails unless every stream was changed.
func verifyNotes(ctx context.Context, port, want int, opts ...nats.Option) error {
	nc, js, err := connect(port, opts...)
	if err != nil {
		return err
	}
	defer nc.Close()
	streams, changed := js.ListStreams(ctx), 0
	for s := range streams.Info() {
		if s.Config.Description == secondNote {
			changed++
		}
	}
	if err := streams.Err(); err != nil {
		return fmt.Errorf("verify node: %w", err)
	}
	if changed != want {
		return fmt.Errorf("verify node: got %d changed streams, want %d", changed, want)
	}
	return nil
}
