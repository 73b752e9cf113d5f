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
	"strings"

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

	text string // of the configuration, with a place for encryption
	keys *keys  // nil: never encrypted
}

// keys change how the store is encrypted with each start that follows one that was ready:
// a new key, and a newer one, then plain text, then again.
type keys struct {
	dir  string
	n    int  // of the present key
	done bool // the node was ready with it
}

// next is storage.encryption for the next start.
func (k *keys) next() (string, error) {
	if k.done {
		k.n++
		k.done = false
	}
	file := func(n int) string { return filepath.Join(k.dir, fmt.Sprintf("store-%d.key", n)) }
	if err := os.WriteFile(file(k.n), fmt.Appendf(nil, "store key %d, abcdefghijklmnopqrstuvwxyz", k.n), 0o600); err != nil {
		return "", fmt.Errorf("write key: %w", err)
	}
	switch k.n % 3 {
	case 0:
		return fmt.Sprintf("{key: %q}", "file:"+file(k.n)), nil
	case 1:
		return fmt.Sprintf("{key: %q, previous_key: %q}", "file:"+file(k.n), "file:"+file(k.n-1)), nil
	}
	return fmt.Sprintf("{previous_key: %q}", "file:"+file(k.n-1)), nil
}

func newHoldfast(binary, dir, data, durability, group string, storage int64, encrypted bool) (node, error) {
	ports, err := child.FreePorts(2)
	if err != nil {
		return nil, err
	}
	n := &holdfastNode{
		binary: binary, file: filepath.Join(dir, "holdfast.yaml"), client: ports[0], http: ports[1],
		creds: filepath.Join(data, "creds", account, "admin.creds"),
	}
	if encrypted {
		n.keys = &keys{dir: dir}
	}
	n.text = fmt.Sprintf(`node: {data_dir: %q}
listen: {client: "127.0.0.1:%d", http: "127.0.0.1:%d"}
storage: {durability: %s, limit: %d, encryption: ENCRYPTION}
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
	return n, nil
}

func (n *holdfastNode) configure() error {
	encryption := "{}"
	if n.keys != nil {
		var err error
		if encryption, err = n.keys.next(); err != nil {
			return err
		}
	}
	if err := os.WriteFile(n.file, []byte(strings.Replace(n.text, "ENCRYPTION", encryption, 1)), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

func (n *holdfastNode) command() (string, []string) {
	return n.binary, []string{"run", "--config", n.file, "--allow-unsafe-storage"}
}

func (n *holdfastNode) ready(ctx context.Context) error {
	_, err := n.ask(ctx, "/readyz")
	if err == nil && n.keys != nil {
		n.keys.done = true
	}
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
