// SPDX-License-Identifier: Apache-2.0

package netlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// commandLimit is for ip and nft on a machine that is busy.
const commandLimit = 20 * time.Second

// Host is a network namespace with one address.
type Host struct {
	Addr string

	link string // its end at the bridge
	ns   *os.File
	home *os.File
}

// Missing lists what is not there to make networks here.
func Missing() []string {
	var missing []string
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil || os.Geteuid() != 0 || caps[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 || caps[0].Effective&(1<<unix.CAP_NET_ADMIN) == 0 {
		missing = append(missing, "root")
	}
	for tool, pkg := range map[string]string{"ip": "iproute2", "nft": "nftables"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, fmt.Sprintf("%s (package %s)", tool, pkg))
		}
	}
	return missing
}

// Apart makes a command run in a network namespace of its own, besides what its
// attributes say already. Only there New may be called.
func Apart(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Unshareflags |= syscall.CLONE_NEWNET
}

// New makes n hosts and the bridge between them, in an empty network namespace.
func New(ctx context.Context, n int) (hosts []*Host, err error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, l := range links {
		if strings.HasPrefix(l.Name, "eth") || strings.HasPrefix(l.Name, "en") {
			return nil, errors.New("make networks: not in a network namespace of its own")
		}
	}
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	setup := "link set lo up\nlink add hfbr type bridge\naddr add 10.77.0.254/24 dev hfbr\nlink set hfbr up\n"
	for i := 1; i <= n; i++ {
		h := &Host{Addr: fmt.Sprintf("10.77.0.%d", i), link: fmt.Sprintf("hfve%d", i), home: home}
		if err := h.unshare(); err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
		setup += fmt.Sprintf("link add %s type veth peer name eth0 netns /proc/%d/fd/%d\nlink set %s master hfbr up\n", h.link, os.Getpid(), h.ns.Fd(), h.link)
	}
	if err := command(ctx, setup, "ip", "-batch", "-"); err != nil {
		return nil, err
	}
	for _, h := range hosts {
		err := h.Do(func() error {
			return command(ctx, fmt.Sprintf("link set lo up\naddr add %s/24 dev eth0\nlink set eth0 up\n", h.Addr), "ip", "-batch", "-")
		})
		if err != nil {
			return nil, err
		}
	}
	return hosts, nil
}

// unshare makes the namespace.
func (h *Host) unshare() error {
	return h.aside(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace: %w", err)
		}
		var err error
		h.ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
}

// Do calls f on a thread in the host's namespace: what it opens and starts is there.
func (h *Host) Do(f func() error) error {
	return h.aside(func() error {
		if err := unix.Setns(int(h.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network of %s: %w", h.Addr, err)
		}
		return f()
	})
}

// aside brings the thread back afterwards. One that can't be brought back stays locked
// to its goroutine, and ends with it.
func (h *Host) aside(f func() error) error {
	runtime.LockOSThread()
	err := f()
	if back := unix.Setns(int(h.home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, fmt.Errorf("leave network of %s: %w", h.Addr, back))
	}
	runtime.UnlockOSThread()
	return err
}

// DialContext connects from within the host. The address must not need a name service.
func (h *Host) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = h.Do(func() error {
		var d net.Dialer
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Dial is DialContext for clients that know no context.
func (h *Host) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	return h.DialContext(ctx, network, address)
}

// dialLimit bounds Dial.
const dialLimit = 2 * time.Second

// Unplug pulls the host's cable, for its clients too.
func (h *Host) Unplug(ctx context.Context) error {
	return command(ctx, "", "ip", "link", "set", h.link, "down")
}

// Drop drops what comes in and goes out, but for the host's own loopback.
func (h *Host) Drop(ctx context.Context) error {
	return h.rules(ctx, "iif != lo drop", "oif != lo drop")
}

// Deafen drops what comes in from or to some TCP ports and lets out what goes out.
func (h *Host) Deafen(ctx context.Context, ports ...int) error {
	var set []string
	for _, p := range ports {
		set = append(set, fmt.Sprint(p))
	}
	list := "{ " + strings.Join(set, ", ") + " }"
	return h.rules(ctx, fmt.Sprintf("iif != lo tcp dport %s drop; iif != lo tcp sport %s drop", list, list), "")
}

func (h *Host) rules(ctx context.Context, in, out string) error {
	text := fmt.Sprintf("table inet part { chain i { type filter hook input priority 0; %s; }; chain o { type filter hook output priority 0; %s; }; }\n", in, out)
	return h.Do(func() error { return command(ctx, text, "nft", "-f", "-") })
}

// Heal takes back what was done to the host's network.
func (h *Host) Heal(ctx context.Context) error {
	return errors.Join(
		command(ctx, "", "ip", "link", "set", h.link, "up"),
		h.Do(func() error { return command(ctx, "", "nft", "flush", "ruleset") }),
	)
}

func command(ctx context.Context, in, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
