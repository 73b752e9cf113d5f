// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
	"github.com/holdfast-mq/holdfast/cmd/internal/loopdisk"
	"github.com/holdfast-mq/holdfast/cmd/internal/netlab"
	"github.com/holdfast-mq/holdfast/cmd/internal/trio"
)

const (
	// Ports are the same on each host: each has a network of its own.
	clientPort, httpPort, routePort = 4222, 8222, 6222
	// diskSize of a node; XFS needs 300 MiB.
	diskSize = 384 << 20
	// requestLimit is how long a client waits for one answer before it asks again.
	requestLimit = trio.RequestLimit
	// stopLimit is when a node counts as one that does not end.
	stopLimit = 40 * time.Second
)

// member is one of the three: a host, a disk, and what runs there.
type member struct {
	*trio.Node
	host    *netlab.Host
	disk    *loopdisk.Disk
	power   *loopdisk.PowerSwitch
	process *child.Process // nil: none
}

// newMembers makes three empty disks and what the nodes run from.
func (t *trial) newMembers(ctx context.Context) error {
	var places []trio.Place
	for i, h := range t.hosts {
		dir := filepath.Join(t.dir, fmt.Sprintf("n%d", i+1))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		d, err := loopdisk.New(ctx, dir, t.fs, diskSize)
		if err != nil {
			return err
		}
		m := &member{host: h, disk: d}
		t.members = append(t.members, m)
		if err := m.plug(ctx); err != nil {
			return err
		}
		places = append(places, trio.Place{Host: h.Addr, Client: clientPort, HTTP: httpPort, Routes: routePort, Dir: dir, Data: filepath.Join(d.At, "data"), Dial: h.DialContext})
	}
	nodes, err := t.mode.nodes(t.o.holdfast, places)
	if err != nil {
		return err
	}
	for i, n := range nodes {
		t.members[i].Node = n
	}
	return nil
}

func (m clusterMode) nodes(holdfast string, places []trio.Place) ([]*trio.Node, error) {
	if !m.stock() {
		return trio.Holdfast(holdfast, fmt.Sprintf("%s, limit: %d", m.sync, diskSize/2), clusterStreams(), places)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return trio.Stock([]string{self, stockVerb}, m.sync, diskSize/2, nil, places)
}

// clusterStreams declares the same streams as with one node.
func clusterStreams() string {
	return fmt.Sprintf(`      %s: {subjects: ["limits.>"], max_bytes: %d, allow_direct: true, consumers: {%s: {ack_wait: %s, max_ack_pending: %d}}}
      %s: {subjects: ["queue.>"], retention: workqueue, max_bytes: %d, allow_direct: true, consumers: {%s: {ack_wait: %s, max_ack_pending: %d}}}
`, limitsStream, limitsBytes, limitsDurable, ackWait, mostPending, queueStream, queueBytes, queueDurable, ackWait, mostPending)
}

// plug mounts the disk and takes the switch in hand.
func (m *member) plug(ctx context.Context) (err error) {
	if err := m.disk.Mount(ctx); err != nil {
		return err
	}
	m.power, err = m.disk.PowerSwitch()
	return err
}

// start returns at once. It must be called on a locked thread, which the process ends with.
func (m *member) start() error {
	name, args := m.Command()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = m.Dir, child.Environment(os.Environ())
	child.Tied(cmd)
	return m.host.Do(func() (err error) {
		m.process, err = child.Start(cmd, m.Log())
		return err
	})
}

// kill ends the process, if there is one, without a word.
func (m *member) kill() {
	if m.process == nil {
		return
	}
	m.process.Kill()
	<-m.process.Ended
	m.process = nil
}

// cutPower ends processes and disks together, then brings the disks back.
func (t *trial) cutPower(ctx context.Context, members ...*member) (err error) {
	for _, m := range members {
		m.process.Kill()
	}
	for _, m := range members {
		err = errors.Join(err, m.power.Cut())
		m.power = nil
	}
	for _, m := range members {
		<-m.process.Ended
		m.process = nil
	}
	t.score.cuts += len(members)
	for _, m := range members {
		err = errors.Join(err, m.disk.Unmount(ctx))
	}
	for _, m := range members {
		if err == nil {
			err = m.plug(ctx)
		}
	}
	return err
}

// stop asks the node to end in good order.
func (m *member) stop(ctx context.Context) error {
	if err := m.process.Cmd.Process.Signal(terminate); err != nil {
		return fmt.Errorf("stop %s: %w", m.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	select {
	case <-m.process.Ended:
		m.process = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w\n%s", m.Name, ctx.Err(), m.process.LastWords())
	}
}

// kept is where something of a node of a round that failed stays.
func (t *trial) kept(m *member, ending string) string {
	return filepath.Join(t.o.dir, fmt.Sprintf("kept-cluster-%s-seed%d-round%d-%s%s", t.mode.name, t.o.seed, t.round, m.Name, ending))
}

// picture keeps what each node of a round that failed knows of its streams, consumers and
// routes, before any of them ends.
func (t *trial) picture(ctx context.Context) {
	if !t.failedIn(t.round) {
		return
	}
	for _, m := range t.members {
		for ending, page := range map[string]string{".jsz.json": "/jsz?accounts=true&streams=true&consumers=true&raft=true", ".routez.json": "/routez?subs=true"} {
			// One that does not answer any more has its goroutines in its log.
			if text, err := m.Ask(ctx, page); err == nil {
				_ = os.WriteFile(t.kept(m, ending), text, 0o600)
			}
		}
	}
}

// close leaves nothing of the three.
func (t *trial) close(ctx context.Context) (err error) {
	t.picture(ctx)
	for _, m := range t.members {
		if m.process != nil && t.failedIn(t.round) {
			// Its last words are where each of its goroutines was.
			_ = m.process.Cmd.Process.Signal(syscall.SIGQUIT) // or it has ended by itself
			select {
			case <-m.process.Ended:
			case <-time.After(noticeLimit):
			}
		}
		m.kill()
		err = errors.Join(err, m.host.Heal(ctx))
		if m.power != nil {
			err = errors.Join(err, m.power.Close(), m.disk.Unmount(ctx))
		}
	}
	if t.failedIn(t.round) {
		for _, m := range t.members {
			kept := t.kept(m, ".log")
			err = errors.Join(err, os.Rename(m.Log(), kept))
			fmt.Fprintf(t.out, "  kept: %s\n", kept)
		}
	}
	t.members = nil
	return errors.Join(err, os.RemoveAll(t.dir))
}

func (m *member) ready(ctx context.Context) error {
	select {
	case <-m.process.Ended:
		return fmt.Errorf("%s ended: %w\n%s", m.Name, m.process.Status, m.process.LastWords())
	default:
	}
	return m.Ready(ctx)
}

// connect is a client of some nodes. One of a single node dials from within its host, so
// that it sees what that one holds also while nobody else reaches it.
func (t *trial) connect(members ...*member) (*session, error) {
	s := &session{closed: make(chan struct{})}
	opts := []nats.Option{nats.ClosedHandler(func(*nats.Conn) { close(s.closed) })}
	if len(members) == 1 {
		opts = append(opts, nats.SetCustomDialer(members[0].host))
	}
	var nodes []*trio.Node
	for _, m := range members {
		nodes = append(nodes, m.Node)
	}
	var err error
	s.nc, s.js, err = t.access.Connect(nodes, opts...)
	return s, err
}

// login reads what clients need, once: an application has its credentials with it.
func (t *trial) login() (err error) {
	t.access, err = t.members[0].Access()
	return err
}

// stream asks for a stream. A question that was asked while leaders change is never
// answered, so none has more time than requestLimit.
func (s *session) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return s.js.Stream(ctx, name)
}

// consumer asks for a consumer, as stream does for a stream.
func (s *session) consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return s.js.Consumer(ctx, stream, name)
}
