// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

// stockVerb makes this program a nats-server of the version in go.mod, with
// that one's own command line.
const stockVerb = "nats-server"

// serveStock is nats-server's main.
func serveStock(args []string) error {
	f := flag.NewFlagSet(stockVerb, flag.ContinueOnError)
	opts, err := server.ConfigureOptions(f, args, server.PrintServerAndExit, f.Usage, server.PrintTLSHelpAndDie)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("make server: %w", err)
	}
	s.ConfigureLogger()
	if err := server.Run(s); err != nil {
		return fmt.Errorf("run server: %w", err)
	}
	s.WaitForShutdown()
	return nil
}

// stockNode is a nats-server, filled by a client as a script does it.
type stockNode struct {
	self string
	file string
	port int
}

func newStock(dir, data, sync string, storage int64) (node, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	ports, err := child.FreePorts(1)
	if err != nil {
		return nil, err
	}
	n := &stockNode{self: self, file: filepath.Join(dir, "nats-server.conf"), port: ports[0]}
	if sync != "" {
		sync = "sync_interval: " + sync
	}
	text := fmt.Sprintf("server_name: torture\nlisten: \"127.0.0.1:%d\"\njetstream {\n    store_dir: %q\n    max_file: %d\n    %s\n}\n", n.port, data, storage, sync)
	if err := os.WriteFile(n.file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return n, nil
}

func (n *stockNode) configure() error { return nil }

func (n *stockNode) command() (string, []string) {
	return n.self, []string{stockVerb, "--config", n.file}
}

// ready: the client port opens when the streams are there.
func (n *stockNode) ready(context.Context) error {
	s, err := connect(n)
	if err != nil {
		return err
	}
	s.nc.Close()
	return nil
}

func (n *stockNode) login() ([]nats.Option, string, error) {
	return nil, fmt.Sprintf("nats://127.0.0.1:%d", n.port), nil
}

func (n *stockNode) who(context.Context) (string, error) { return "", nil }

func (n *stockNode) declares() bool { return false }

func (n *stockNode) fill(ctx context.Context, js jetstream.JetStream) error {
	return fillStock(ctx, js, 1)
}

// fillStock makes the streams of Holdfast's file, with so many copies. What exists stays.
func fillStock(ctx context.Context, js jetstream.JetStream, replicas int) error {
	wait, err := time.ParseDuration(ackWait)
	if err != nil {
		return fmt.Errorf("read ack_wait: %w", err)
	}
	for _, s := range []struct {
		name, subject, durable string
		retention              jetstream.RetentionPolicy
		bytes                  int64
	}{
		{limitsStream, "limits.>", limitsDurable, jetstream.LimitsPolicy, limitsBytes},
		{queueStream, "queue.>", queueDurable, jetstream.WorkQueuePolicy, queueBytes},
	} {
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: s.name, Subjects: []string{s.subject}, Retention: s.retention, MaxBytes: s.bytes, Discard: jetstream.DiscardNew, AllowDirect: true, Replicas: replicas,
		})
		if err != nil {
			return fmt.Errorf("create stream %q: %w", s.name, err)
		}
		_, err = js.CreateOrUpdateConsumer(ctx, s.name, jetstream.ConsumerConfig{
			Durable: s.durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: wait, MaxAckPending: mostPending,
		})
		if err != nil {
			return fmt.Errorf("create consumer %q of stream %q: %w", s.durable, s.name, err)
		}
	}
	return nil
}
