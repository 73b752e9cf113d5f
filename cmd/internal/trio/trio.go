// SPDX-License-Identifier: Apache-2.0

// Package trio writes what three nodes that replicate to each other run from: Holdfast, or
// a nats-server of the version in go.mod with the same settings. It owns their files; who
// starts the processes, on which disks and networks, its callers know.
package trio

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Account is the one that Holdfast's nodes declare.
const Account = "trio"

// secret is the cluster's: nothing else has it.
const secret = "what three nodes under test share, and nobody else has"

// Place is where one of the nodes runs.
type Place struct {
	Host         string // an address; its clients use TLS when it is not the loopback
	Client, HTTP int    // ports
	Routes       int    // the port after it is used, too
	Dir          string // configuration and log
	Data         string
	// Dial is how what runs there is reached, also on its loopback; nil: from here.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Node is one of three as it is configured, running or not.
type Node struct {
	Place
	Name string

	program []string
	file    string
	text    string
	ready   string
	stock   bool
}

// Holdfast makes nodes whose file is the same, with what is declared below
// accounts.trio.streams.
func Holdfast(binary, storage, streams string, places []Place) ([]*Node, error) {
	return make3(places, func(n *Node, peers []string) {
		n.file, n.ready = filepath.Join(n.Dir, "holdfast.yaml"), "/readyz"
		n.program = []string{binary, "run", "--config", n.file, "--allow-unsafe-storage"}
		var b strings.Builder
		fmt.Fprintf(&b, "node: {name: %s, data_dir: %q}\n", n.Name, n.Data)
		fmt.Fprintf(&b, "listen: {client: %q, http: \"127.0.0.1:%d\", advertise: [%q]}\n", n.ClientAddress(), n.HTTP, n.Host)
		fmt.Fprintf(&b, "storage: {%s}\n", storage)
		fmt.Fprintf(&b, "cluster: {name: trio, listen: %q, peers: [\"%s\"], secret: %q}\n",
			address(n.Host, n.Routes), strings.Join(peers, `", "`), "file:"+n.secretFile())
		fmt.Fprintf(&b, "accounts:\n  %s:\n    users: {admin: {role: admin}}\n    streams:\n%s", Account, streams)
		n.text = b.String()
	})
}

// TLSFiles are a certificate and its key.
type TLSFiles struct{ Cert, Key string }

// Stock makes nats-servers, which a client has to fill. sync is sync_interval; nothing
// leaves it out. With routes their routes are encrypted, and each shows that certificate
// and trusts it.
func Stock(program []string, sync string, limit int64, routes *TLSFiles, places []Place) ([]*Node, error) {
	secure := ""
	if routes != nil {
		secure = fmt.Sprintf("    tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }\n", routes.Cert, routes.Key, routes.Cert)
	}
	return make3(places, func(n *Node, peers []string) {
		n.file, n.ready = filepath.Join(n.Dir, "nats-server.conf"), "/healthz"
		n.stock = true
		n.program = append(program[:len(program):len(program)], "--config", n.file)
		if sync != "" {
			sync = "sync_interval: " + strings.TrimPrefix(sync, "sync_interval: ")
		}
		n.text = fmt.Sprintf("server_name: %s\nlisten: %q\nhttp: \"127.0.0.1:%d\"\njetstream {\n    store_dir: %q\n    max_file: %d\n    %s\n}\ncluster {\n    name: trio\n    listen: %q\n    routes: [\"nats://%s\"]\n%s}\n",
			n.Name, n.ClientAddress(), n.HTTP, n.Data, limit, sync, address(n.Host, n.Routes), strings.Join(peers, `", "nats://`), secure)
	})
}

func make3(places []Place, fill func(n *Node, peers []string)) ([]*Node, error) {
	var peers []string
	for _, p := range places {
		peers = append(peers, address(p.Host, p.Routes))
	}
	var nodes []*Node
	for i, p := range places {
		n := &Node{Place: p, Name: fmt.Sprintf("n%d", i+1)}
		fill(n, peers)
		if err := os.MkdirAll(n.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		for path, text := range map[string]string{n.file: n.text, n.secretFile(): secret} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				return nil, fmt.Errorf("write configuration: %w", err)
			}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (n *Node) secretFile() string { return filepath.Join(n.Dir, "cluster.secret") }

// Command starts the node in the foreground.
func (n *Node) Command() (name string, args []string) { return n.program[0], n.program[1:] }

// Log is where the node's output goes.
func (n *Node) Log() string { return filepath.Join(n.Dir, "log") }

// ClientAddress is where clients connect.
func (n *Node) ClientAddress() string { return address(n.Host, n.Client) }

// CredsFile is that of a user who may do everything, on Holdfast's nodes.
func (n *Node) CredsFile() string { return filepath.Join(n.Data, "creds", Account, "admin.creds") }

// CAFile is what clients of Holdfast's nodes trust beyond the loopback.
func (n *Node) CAFile() string { return filepath.Join(n.Data, "tls", "ca.crt") }

func address(host string, port int) string { return net.JoinHostPort(host, fmt.Sprint(port)) }
