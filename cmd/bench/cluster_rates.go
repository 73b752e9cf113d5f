// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/holdfast-mq/holdfast/cmd/bench/load"
	"github.com/holdfast-mq/holdfast/cmd/internal/child"
	"github.com/holdfast-mq/holdfast/cmd/internal/trio"
)

// clusterPeers are three nodes of each kind on the loopback, and versions of the others.
func (l *lab) clusterPeers(only *regexp.Regexp, out io.Writer) ([]queuePeer, []string) {
	all := []queuePeer{
		{ours, "Holdfast", l.threeHoldfast},
		{stock, "stock strict", l.threeStock("always", false)},
		{stockTLS, "stock strict, encrypted", l.threeStock("always", true)},
		{stockNoFsync, "stock without fsync", l.threeStock("", false)},
	}
	var versions []string
	if version := rabbitVersion(); version == "" {
		fmt.Fprintln(out, "without RabbitMQ: no rabbitmq-server here (`make bench-peers` installs it)")
	} else {
		all, versions = append(all, queuePeer{rabbitPeer, "RabbitMQ", l.threeRabbits}), append(versions, version)
	}
	var chosen []queuePeer
	for _, p := range all {
		if p.name == ours || p.name == stock || only.MatchString(p.name) {
			chosen = append(chosen, p)
		}
	}
	return chosen, versions
}

// threePlaces are three directories and free ports.
func threePlaces(dir string) ([]trio.Place, error) {
	ports, err := child.FreePorts(6)
	if err != nil {
		return nil, err
	}
	var places []trio.Place
	for i := range 3 {
		home := filepath.Join(dir, fmt.Sprintf("n%d", i+1))
		// Nobody else is in this network: ports below those that are handed out are free.
		places = append(places, trio.Place{Host: "127.0.0.1", Client: ports[i], HTTP: ports[3+i], Routes: 6222 + 10*i, Dir: home, Data: filepath.Join(home, "data")})
	}
	return places, nil
}

// threeNodes is the first of three processes, with the others as companions.
type threeNodes struct {
	nodes []*trio.Node
	spec  load.Spec
}

func (n threeNodes) command() (string, []string) { return n.nodes[0].Command() }

func (n threeNodes) ready(ctx context.Context) error {
	for _, m := range n.nodes {
		if err := m.Ready(ctx); err != nil {
			return err
		}
	}
	return n.spec.Ping(ctx)
}

func (n threeNodes) fill(context.Context) error   { return nil }
func (n threeNodes) verify(context.Context) error { return nil }

func (l *lab) three(nodes []*trio.Node, spec load.Spec) queueNode {
	spec.Protocol, spec.Address, spec.Copies = load.NATS, nodes[0].ClientAddress(), 3
	out := queueNode{}
	for _, n := range nodes[1:] {
		spec.Others = append(spec.Others, n.ClientAddress())
		name, args := n.Command()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = n.Dir, l.env
		out.companions = append(out.companions, cmd)
	}
	out.node, out.spec = threeNodes{nodes, spec}, spec
	return out
}

func (l *lab) threeHoldfast(dir string, _ cell) (queueNode, error) {
	places, err := threePlaces(dir)
	if err != nil {
		return queueNode{}, err
	}
	nodes, err := trio.Holdfast(l.holdfast, fmt.Sprintf("durability: strict, limit: %d", queueLimit), clusterQueue(), places)
	if err != nil {
		return queueNode{}, err
	}
	return l.three(nodes, load.Spec{Creds: nodes[0].CredsFile(), Exists: true}), nil
}

// threeStock can have routes that are encrypted, as Holdfast's always are.
func (l *lab) threeStock(sync string, encrypted bool) func(string, cell) (queueNode, error) {
	return func(dir string, _ cell) (queueNode, error) {
		places, err := threePlaces(dir)
		if err != nil {
			return queueNode{}, err
		}
		var routes *trio.TLSFiles
		if encrypted {
			if routes, err = routeTLS(dir); err != nil {
				return queueNode{}, err
			}
		}
		nodes, err := trio.Stock([]string{l.stock}, sync, queueLimit, routes, places)
		if err != nil {
			return queueNode{}, err
		}
		return l.three(nodes, load.Spec{}), nil
	}
}

// threeRabbits share a name service and a cookie.
func (l *lab) threeRabbits(dir string, _ cell) (queueNode, error) {
	var all []queueNode
	epmd := ""
	for i := range 3 {
		n, err := l.rabbitNode(dir, rabbitName(i), epmd)
		if err != nil {
			return queueNode{}, err
		}
		all, epmd = append(all, n), n.epmd
	}
	out := all[0]
	r := rabbits{plainNode: out.node.(plainNode), lab: l, env: out.names}
	for _, n := range all[1:] {
		path, args := n.command()
		cmd := exec.Command(path, args...)
		cmd.Dir, cmd.Env = l.dir, l.env
		out.companions = append(out.companions, cmd)
		out.spec.Others = append(out.spec.Others, n.spec.Address)
		r.others = append(r.others, n.spec)
	}
	out.spec.Copies = len(all)
	r.spec, out.node = out.spec, &r
	return out, nil
}

func rabbitName(i int) string { return fmt.Sprintf("bench%d@localhost", i+1) }

// rabbits are three nodes, of which the first is the process that is waited for.
type rabbits struct {
	plainNode
	*lab
	env    []string
	others []load.Spec
}

// ready: each for itself.
func (r *rabbits) ready(ctx context.Context) error {
	alone := r.spec
	alone.Others = nil
	err := alone.Ping(ctx)
	for _, o := range r.others {
		if err == nil {
			err = o.Ping(ctx)
		}
	}
	return err
}

// fill makes one cluster of them, as `rabbitmqctl join_cluster` does it.
func (r *rabbits) fill(ctx context.Context) error {
	for i := range r.others {
		join := fmt.Sprintf("rabbit:stop(), ok = rabbit_mnesia:join_cluster('%s', disc), rabbit:start().", rabbitName(0))
		args := append(r.env[:len(r.env):len(r.env)], "/usr/lib/rabbitmq/bin/rabbitmqctl", "-n", rabbitName(i+1), "eval", join)
		if _, err := r.output(ctx, "env", args...); err != nil {
			return err
		}
	}
	return r.spec.Ping(ctx)
}
