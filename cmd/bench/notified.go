// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// notified is the other end of $NOTIFY_SOCKET.
type notified struct {
	path  string
	conn  *net.UnixConn
	ended chan struct{}

	mu  sync.Mutex
	got []told
}

// told is a line for systemctl status.
type told struct {
	at   time.Time
	text string
}

func listenAsSystemd(path string) (*notified, error) {
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("listen as systemd: %w", err)
	}
	n := &notified{path: path, conn: c, ended: make(chan struct{})}
	go n.listen()
	return n, nil
}

func (n *notified) listen() {
	defer close(n.ended)
	buf := make([]byte, 4096)
	for {
		size, err := n.conn.Read(buf)
		if err != nil {
			return
		}
		if _, text, ok := strings.Cut(string(buf[:size]), "STATUS="); ok {
			n.mu.Lock()
			n.got = append(n.got, told{time.Now(), text})
			n.mu.Unlock()
		}
	}
}

func (n *notified) lines() []told {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got)
}

func (n *notified) close() error {
	err := n.conn.Close()
	<-n.ended
	if gone := os.Remove(n.path); !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
