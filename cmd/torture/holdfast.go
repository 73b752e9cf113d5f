// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

// Streams and their consumers, the same on every kind of node. The limit of
// LIMITS makes blocks of 8 MiB; ack_wait is what a cut adds to the time until a
// message comes again.
const (
	account       = "torture"
	limitsStream  = "LIMITS"
	limitsDurable = "reader"
	limitsBytes   = 64 << 20
	queueStream   = "QUEUE"
	queueDurable  = "worker"
	queueBytes    = 32 << 20
	ackWait       = "1s"
	mostPending   = 50000
)

// holdfastNode runs from one file that declares everything.
type holdfastNode struct {
	binary string
	file   string
	creds  string
	client int
	http   int
}

func newHoldfast(binary, dir, data, durability, group string, storage int64) (node, error) {
	ports, err := child.FreePorts(2)
	if err != nil {
		return nil, err
	}
	n := &holdfastNode{
		binary: binary, file: filepath.Join(dir, "holdfast.yaml"), client: ports[0], http: ports[1],
		creds: filepath.Join(data, "creds", account, "admin.creds"),
	}
	text := fmt.Sprintf(`node: {data_dir: %q}
listen: {client: "127.0.0.1:%d", http: "127.0.0.1:%d"}
storage: {durability: %s, limit: %d}
accounts:
  %s:
    users: {admin: {role: admin}}
    streams:
      %s:
        subjects: ["limits.>"]
        max_bytes: %d
        allow_direct: true
        group_commit: %q
        consumers: {%s: {ack_wait: %s, max_ack_pending: %d}}
      %s:
        subjects: ["queue.>"]
        retention: workqueue
        max_bytes: %d
        allow_direct: true
        group_commit: %q
        consumers: {%s: {ack_wait: %s, max_ack_pending: %d}}
`, data, n.client, n.http, durability, storage, account,
		limitsStream, limitsBytes, group, limitsDurable, ackWait, mostPending,
		queueStream, queueBytes, group, queueDurable, ackWait, mostPending)
	if err := os.WriteFile(n.file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return n, nil
}

func (n *holdfastNode) command() (string, []string) {
	return n.binary, []string{"run", "--config", n.file, "--allow-unsafe-storage"}
}

func (n *holdfastNode) ready(ctx context.Context) error {
	_, err := n.ask(ctx, "/readyz")
	return err
}

func (n *holdfastNode) login() ([]nats.Option, string, error) {
	if _, err := os.Stat(n.creds); err != nil {
		return nil, "", fmt.Errorf("find credentials: %w", err)
	}
	return []nats.Option{nats.UserCredentials(n.creds)}, fmt.Sprintf("nats://127.0.0.1:%d", n.client), nil
}

func (n *holdfastNode) who(ctx context.Context) (string, error) {
	creds, err := os.ReadFile(n.creds)
	if err != nil {
		return "", fmt.Errorf("read credentials: %w", err)
	}
	text, err := n.ask(ctx, "/varz")
	if err != nil {
		return "", err
	}
	var varz struct {
		Name string `json:"server_name"`
	}
	if err := json.Unmarshal(text, &varz); err != nil {
		return "", fmt.Errorf("read the node's name: %w", err)
	}
	return varz.Name + "\n" + string(creds), nil
}

func (n *holdfastNode) fill(context.Context, jetstream.JetStream) error { return nil }

func (n *holdfastNode) declares() bool { return true }

// ask reads a page of the HTTP listener.
func (n *holdfastNode) ask(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", n.http, path), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", path, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s: %s: %s", path, resp.Status, text)
	}
	return text, nil
}
