// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Notifier tells systemd what the process is doing (sd_notify(3)). Without
// systemd, or when its socket is gone, it does nothing: no queue stops working
// because nobody listens. Under the service manager of Windows it tells that.
type Notifier struct {
	socket string
	tell   func(news)
}

// news is what the service manager of Windows is told.
type news struct {
	ready  bool
	extend time.Duration // asked for, beyond now
	status string
}

// NewNotifier reads where systemd listens from $NOTIFY_SOCKET.
func NewNotifier() Notifier { return Notifier{socket: os.Getenv("NOTIFY_SOCKET")} }

// Ready says that start-up has ended.
func (n Notifier) Ready(status string) {
	n.send("READY=1\nSTATUS=" + oneLine(status))
	n.manager(news{ready: true, status: status})
}

// Status shows one line in systemctl status.
func (n Notifier) Status(status string) {
	n.send("STATUS=" + oneLine(status))
	n.manager(news{status: status})
}

// Extend asks for d more, for start-up or a stop that makes progress.
func (n Notifier) Extend(d time.Duration, status string) {
	n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=%s", d.Microseconds(), oneLine(status)))
	n.manager(news{extend: d, status: status})
}

// Reloading says that a reload has begun; Ready ends it. The time has to be in
// the same datagram.
func (n Notifier) Reloading() {
	n.send(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d\nSTATUS=reloading", monotonicUsec()))
}

// Stopping says that the stop has begun.
func (n Notifier) Stopping() { n.send("STOPPING=1\nSTATUS=draining clients") }

func (n Notifier) manager(what news) {
	if n.tell != nil {
		n.tell(what)
	}
}

func (n Notifier) send(state string) {
	if n.socket == "" {
		return
	}
	addr := n.socket
	if strings.HasPrefix(addr, "@") { // an abstract socket starts with a zero byte
		addr = "\x00" + addr[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: addr, Net: "unixgram"})
	if err != nil {
		return
	}
	_, _ = c.Write([]byte(state))
	_ = c.Close()
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }
