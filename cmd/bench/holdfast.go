// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

// holdfastNode runs from one file that declares everything.
type holdfastNode struct {
	binary string
	file   string
	creds  string
	client int
	http   int
	size   size
}

func (l *lab) newHoldfast(dir string, s size) (node, error) {
	ports, err := child.FreePorts(2)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	n := &holdfastNode{
		binary: l.holdfast, file: filepath.Join(dir, "holdfast.yaml"),
		creds:  filepath.Join(data, "creds", account, "admin.creds"),
		client: ports[0], http: ports[1], size: s,
	}
	return n, writeFile(n.file, holdfastFile(data, n.client, n.http, s))
}

// holdfastFile declares s as a person would write it.
func holdfastFile(data string, client, http int, s size) string {
	var b strings.Builder
	fmt.Fprintf(&b, "node: {name: bench, data_dir: %s}\n", quote(data))
	fmt.Fprintf(&b, "listen: {client: \"127.0.0.1:%d\", http: \"127.0.0.1:%d\"}\n", client, http)
	fmt.Fprintf(&b, "storage: {durability: strict, limit: %d}\n", storeLimit)
	fmt.Fprintf(&b, "accounts:\n  %s:\n    users:\n      admin: {role: admin}\n", account)
	if s.streams > 0 {
		fmt.Fprintf(&b, "    streams:\n")
	}
	for i := range s.streams {
		fmt.Fprintf(&b, "      %s:\n        subjects: [%q]\n        max_bytes: %d\n", s.stream(i), s.subject(i), streamBytes)
		if s.note != "" {
			fmt.Fprintf(&b, "        description: %q\n", s.note)
		}
		if s.consumers > 0 {
			fmt.Fprintf(&b, "        consumers:\n")
		}
		for j := range s.consumers {
			fmt.Fprintf(&b, "          %s: {ack_wait: 30s, filter_subject: %q}\n", s.consumer(j), s.filter(i, j))
		}
	}
	return b.String()
}

func (n *holdfastNode) command() (string, []string) {
	// -dir says where the data goes; what it is on is the reader's to judge.
	return n.binary, []string{"run", "--config", n.file, "--allow-unsafe-storage"}
}

func (n *holdfastNode) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", n.http), nil)
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	why, err := io.ReadAll(io.LimitReader(resp.Body, 512))
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	return fmt.Errorf("not ready: %s", strings.TrimSpace(string(why)))
}

// fill has nothing to do: ready comes when everything declared exists.
func (n *holdfastNode) fill(context.Context) error { return nil }

func (n *holdfastNode) verify(ctx context.Context) error {
	return verifyAt(ctx, n.client, n.size, nats.UserCredentials(n.creds))
}

// timeCheck is a whole `holdfast check` of the large node's file.
func (l *lab) timeCheck(ctx context.Context) (_ sample, err error) {
	dir, err := os.MkdirTemp(l.dir, "check-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "holdfast.yaml")
	if err := writeFile(file, holdfastFile(filepath.Join(dir, "data"), 4222, 8222, l.size)); err != nil {
		return nil, err
	}
	return l.timeVerb(ctx, "check", file)
}

// timeVersion is what starting the binary alone costs.
func (l *lab) timeVersion(ctx context.Context) (sample, error) { return l.timeVerb(ctx, "version") }

func (l *lab) timeVerb(ctx context.Context, args ...string) (sample, error) {
	begun := time.Now()
	_, err := l.output(ctx, l.holdfast, args...)
	return sample{"whole process": time.Since(begun).Seconds()}, err
}

func writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}
