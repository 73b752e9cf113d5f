// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/holdfast-mq/holdfast/cmd/bench/load"
	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

// Names of the peers.
const (
	ours         = "holdfast"
	stock        = "stock"
	stockTLS     = "stock-encrypted"
	stockNoFsync = "stock-nofsync"
	oursInterval = "holdfast-interval"
	stockInterv  = "stock-interval"
	redisPeer    = "redis"
	rabbitPeer   = "rabbitmq"
)

const (
	// queueName is the queue that every server holds: a new one for each measurement,
	// on a new server with an empty directory.
	queueName = "Q"
	// queueLimit is what a NATS server may store.
	queueLimit = 4 << 30
	// rabbitScript is what the wrapper in the PATH calls as another user.
	rabbitScript = "/usr/lib/rabbitmq/bin/rabbitmq-server"
)

// queuePeer makes servers of one kind.
type queuePeer struct {
	name  string
	label string
	make  func(dir string, c cell) (queueNode, error)
}

// queueNode is a server before it runs, and how its clients reach it.
type queueNode struct {
	node
	spec load.Spec
	// companions are processes that have to be there first.
	companions []*exec.Cmd
	// Of RabbitMQ: the port of its name service, and what its tools need.
	epmd  string
	names []string
}

// plainNode is a server of which nothing but its command is known.
type plainNode struct {
	name string
	args []string
	spec load.Spec
}

func (n plainNode) command() (string, []string)     { return n.name, n.args }
func (n plainNode) ready(ctx context.Context) error { return n.spec.Ping(ctx) }
func (n plainNode) fill(context.Context) error      { return nil }
func (n plainNode) verify(context.Context) error    { return nil }

// queuePeers are the peers that can be measured here, and their versions.
func (l *lab) queuePeers(ctx context.Context, only *regexp.Regexp, out io.Writer) ([]queuePeer, []string, error) {
	commit, err := l.groupCommit(ctx)
	if err != nil {
		return nil, nil, err
	}
	if commit == "" {
		fmt.Fprintln(out, "this holdfast does not take group_commit: on; measured as it is")
	}
	all := []queuePeer{
		{ours, "Holdfast", l.holdfastQueue("durability: strict", commit)},
		{stock, "stock strict", l.stockQueue("always")},
		{stockNoFsync, "stock without fsync", l.stockQueue("2m")},
		{oursInterval, "Holdfast interval", l.holdfastQueue("durability: interval, sync_interval: 1s", "")},
		{stockInterv, "stock interval", l.stockQueue("1s")},
	}
	var versions []string
	if version, err := redisVersion(ctx, l); err != nil {
		fmt.Fprintln(out, "without Redis: no redis-server here (`make bench-peers` installs it)")
	} else {
		all, versions = append(all, queuePeer{redisPeer, "Redis", l.redisQueue}), append(versions, version)
	}
	if version := rabbitVersion(); version == "" {
		fmt.Fprintln(out, "without RabbitMQ: no rabbitmq-server here (`make bench-peers` installs it)")
	} else {
		all, versions = append(all, queuePeer{rabbitPeer, "RabbitMQ", l.rabbitQueue}), append(versions, version)
	}
	var chosen []queuePeer
	for _, p := range all {
		if p.name == ours || p.name == stock || only.MatchString(p.name) {
			chosen = append(chosen, p)
		}
	}
	return chosen, versions, nil
}

// groupCommit is the line that a stream gets, if this binary takes it.
func (l *lab) groupCommit(ctx context.Context) (taken string, err error) {
	const on = "        group_commit: on\n"
	file := filepath.Join(l.dir, "group-commit.yaml")
	for _, line := range []string{"", on} {
		if err := writeFile(file, queueFile(filepath.Join(l.dir, "none"), 4222, 8222, "durability: strict", line, cell{})); err != nil {
			return "", err
		}
		_, err := l.output(ctx, l.holdfast, "check", file)
		switch {
		case err == nil:
			taken = line
		case line == "" || ctx.Err() != nil:
			return "", err
		}
	}
	return taken, nil
}

func (l *lab) holdfastQueue(durability, commit string) func(string, cell) (queueNode, error) {
	return func(dir string, c cell) (queueNode, error) {
		ports, err := child.FreePorts(2)
		if err != nil {
			return queueNode{}, err
		}
		data := filepath.Join(dir, "data")
		n := &holdfastNode{
			binary: l.holdfast, file: filepath.Join(dir, "holdfast.yaml"), client: ports[0], http: ports[1],
			creds: filepath.Join(data, "creds", account, "admin.creds"),
		}
		spec := load.Spec{Protocol: load.NATS, Address: address(ports[0]), Creds: n.creds, Exists: true}
		return queueNode{node: n, spec: spec}, writeFile(n.file, queueFile(data, n.client, n.http, durability, commit, c))
	}
}

// queueFile declares the queue as a person would write it.
func queueFile(data string, client, http int, durability, commit string, c cell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "node: {name: bench, data_dir: %s}\n", quote(data))
	fmt.Fprintf(&b, "listen: {client: \"127.0.0.1:%d\", http: \"127.0.0.1:%d\"}\n", client, http)
	fmt.Fprintf(&b, "storage: {%s, limit: %d}\n", durability, queueLimit)
	fmt.Fprintf(&b, "accounts:\n  %s:\n    users:\n      admin: {role: admin}\n", account)
	fmt.Fprintf(&b, "    streams:\n      %s:\n        subjects: [%q]\n        max_bytes: %d\n%s",
		queueName, load.Spec{Queue: queueName}.Subjects(), load.QueueBytes, commit)
	if c.workers > 0 {
		fmt.Fprintf(&b, "        retention: workqueue\n        consumers:\n          %s: {max_ack_pending: %d}\n", load.Worker, load.MaxAckPending)
	}
	return b.String()
}

func (l *lab) stockQueue(sync string) func(string, cell) (queueNode, error) {
	return func(dir string, _ cell) (queueNode, error) {
		ports, err := child.FreePorts(2)
		if err != nil {
			return queueNode{}, err
		}
		file := filepath.Join(dir, "nats-server.conf")
		spec := load.Spec{Protocol: load.NATS, Address: address(ports[0])}
		text := stockText(filepath.Join(dir, "data"), ports[0], ports[1], queueLimit, sync)
		return queueNode{node: plainNode{l.stock, []string{"--config", file}, spec}, spec: spec}, writeFile(file, text)
	}
}

func redisVersion(ctx context.Context, l *lab) (string, error) {
	text, err := l.output(ctx, "redis-server", "--version")
	if err != nil {
		return "", err
	}
	// Redis server v=7.0.15 sha=…
	_, text, _ = strings.Cut(text, "v=")
	version, _, _ := strings.Cut(text, " ")
	return "Redis " + version, nil
}

// redisQueue writes its log of commands, synced before each answer, and nothing else.
func (l *lab) redisQueue(dir string, _ cell) (queueNode, error) {
	ports, err := child.FreePorts(1)
	if err != nil {
		return queueNode{}, err
	}
	spec := load.Spec{Protocol: load.Redis, Address: address(ports[0])}
	n := plainNode{"redis-server", []string{
		"--bind", "127.0.0.1", "--port", fmt.Sprint(ports[0]), "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
	}, spec}
	return queueNode{node: n, spec: spec}, nil
}

// rabbitVersion is empty where there is no RabbitMQ, or none as Debian lays it out.
func rabbitVersion() string {
	const prefix = "/usr/lib/rabbitmq/lib/rabbitmq_server-"
	found, _ := filepath.Glob(prefix + "*") // the pattern is right
	if _, err := os.Stat(rabbitScript); err != nil || len(found) != 1 {
		return ""
	}
	if _, err := exec.LookPath("epmd"); err != nil {
		return ""
	}
	return "RabbitMQ " + strings.TrimPrefix(found[0], prefix)
}

// rabbitQueue is a node that shares nothing with one that the system may run: its name
// service, its cookie, its directories and its ports are its own.
func (l *lab) rabbitQueue(dir string, _ cell) (queueNode, error) {
	return l.rabbitNode(dir, "bench@localhost", "")
}

// rabbitNode is one with a name service of its own, or with that of another one.
func (l *lab) rabbitNode(dir, name, epmdPort string) (queueNode, error) {
	ports, err := child.FreePorts(3)
	if err != nil {
		return queueNode{}, err
	}
	out := queueNode{epmd: epmdPort}
	if epmdPort == "" {
		out.epmd = fmt.Sprint(ports[1])
	}
	own := filepath.Join(dir, strings.TrimSuffix(name, "@localhost"))
	if err := os.Mkdir(own, 0o755); err != nil {
		return out, fmt.Errorf("make directory: %w", err)
	}
	file, plugins, none := filepath.Join(own, "rabbitmq.conf"), filepath.Join(own, "enabled_plugins"), filepath.Join(own, "none")
	conf := fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\nlog.console.level = warning\nlog.file = false\n", ports[0])
	for path, text := range map[string]string{file: conf, plugins: "[].\n", none: ""} {
		if err := writeFile(path, text); err != nil {
			return out, err
		}
	}
	names := []string{"HOME=" + dir, "ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + out.epmd}
	env := append(names,
		"RABBITMQ_NODENAME="+name, fmt.Sprintf("RABBITMQ_DIST_PORT=%d", ports[2]),
		"RABBITMQ_MNESIA_BASE="+filepath.Join(own, "data"), "RABBITMQ_LOG_BASE="+own, "RABBITMQ_CONFIG_FILE="+file,
		"RABBITMQ_ENABLED_PLUGINS_FILE="+plugins, "RABBITMQ_CONF_ENV_FILE="+none,
		// The script becomes the server, instead of its parent.
		"RUNNING_UNDER_SYSTEMD=true",
	)
	if epmdPort == "" {
		epmd := exec.Command("epmd")
		epmd.Env = append(l.env[:len(l.env):len(l.env)], names...)
		out.companions = []*exec.Cmd{epmd}
	}
	out.names = names
	out.spec = load.Spec{Protocol: load.Rabbit, Address: address(ports[0])}
	out.node = plainNode{"env", append(env, rabbitScript), out.spec}
	return out, nil
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
