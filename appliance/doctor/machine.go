// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/common"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/disk"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// machine is where the checks look. It remembers what several of them need.
type machine struct {
	in    Input
	check string // the one that runs
	uid   int

	now    func() time.Time
	synced func() (bool, error) // is the clock kept by NTP or a host
	lookup func(ctx context.Context, host string) ([]string, error)

	unitRead  bool
	installed *unit
	asked     bool
	node      Node
	nodeErr   error
}

func newMachine(in Input) *machine {
	if in.Program == "" {
		in.Program = "holdfast"
	}
	if in.Config == nil {
		in.Config = &config.Config{}
	}
	return &machine{in: in, uid: os.Geteuid(), now: time.Now, synced: clockSynced, lookup: net.DefaultResolver.LookupHost}
}

// at is where a file of the system is.
func (m *machine) at(path string) string {
	if m.in.Root == "" {
		return path
	}
	return filepath.Join(m.in.Root, path)
}

// read returns the text of a file of the system without white space around it,
// "" when there is none.
func (m *machine) read(path string) string {
	if howto.Here() == howto.Windows {
		return "" // which has no such files; one of that name is anybody's
	}
	data, err := os.ReadFile(m.at(path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// system is where mounts and devices are read.
func (m *machine) system() disk.System { return disk.System{Root: m.in.Root} }

func (m *machine) exists(path string) bool {
	if howto.Here() == howto.Windows {
		return false
	}
	_, err := os.Stat(m.at(path))
	return err == nil
}

// readsBelow makes gopsutil look where at does.
func (m *machine) readsBelow(ctx context.Context) context.Context {
	if m.in.Root == "" {
		return ctx
	}
	return context.WithValue(ctx, common.EnvKey, common.EnvMap{
		common.HostProcEnvKey: m.at("/proc"), common.HostSysEnvKey: m.at("/sys"), common.HostEtcEnvKey: m.at("/etc"), common.HostRunEnvKey: m.at("/run"),
	})
}

// asRoot is a command that needs root.
func (m *machine) asRoot(command string) string {
	if m.uid == 0 {
		return command
	}
	return howto.Here().AsRoot(command)
}

// again is the command that runs this check as root.
func (m *machine) again() string { return m.in.Again(m.check) }

// Again is the command that runs the named checks as root.
func (in Input) Again(names ...string) string {
	return howto.Here().AsRoot(in.verb("doctor", names...))
}

// tune is the command that sets and puts back.
func (in Input) tune(words ...string) string { return in.verb("tune", words...) }

// verb is a command for the same node.
func (in Input) verb(verb string, more ...string) string {
	words := []string{quote(cmp.Or(in.Program, "holdfast")), verb}
	if in.File != "" {
		words = append(words, "--config", quote(absolute(in.File)))
	} else if in.Config != nil && in.Config.Node.DataDir != "" {
		words = append(words, "--data-dir", quote(absolute(in.Config.Node.DataDir)))
	}
	return strings.Join(append(words, more...), " ")
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// dataDir is empty when the configuration names none.
func (m *machine) dataDir() string {
	if dir := m.in.Config.Node.DataDir; dir != "" {
		return absolute(dir)
	}
	return ""
}

// storeDir is where messages are, which may be a volume of its own.
func (m *machine) storeDir() string {
	store := filepath.Join(m.dataDir(), "jetstream")
	if _, err := os.Stat(store); err == nil {
		return store
	}
	return m.dataDir()
}

// ask asks the node once, whoever needs the answer.
func (m *machine) ask(ctx context.Context) (Node, error) {
	if !m.asked {
		m.asked, m.nodeErr = true, diag.Fail(diag.CodeNoNode, errors.New("no node was asked"), "")
		if m.in.Ask != nil {
			m.node, m.nodeErr = m.in.Ask(ctx)
		}
	}
	return m.node, m.nodeErr
}

// restart is how the node gets to run with what was changed.
func (m *machine) restart() string {
	if m.isService() {
		return m.asRoot(howto.Here().Restart())
	}
	return comment("then stop the node and start it again")
}

// isService reports whether the service of this system is the node that is looked at.
func (m *machine) isService() bool {
	return m.service() || m.in.Service != "" && m.in.File != "" && strings.EqualFold(absolute(m.in.File), absolute(m.in.Service))
}

// container names the kind of container this is, "" when it is none.
func (m *machine) container() string {
	switch {
	case m.read("/run/systemd/container") != "":
		return m.read("/run/systemd/container")
	case m.exists("/.dockerenv"):
		return "docker"
	case m.exists("/run/.containerenv"):
		return "podman"
	}
	for entry := range strings.SplitSeq(m.read("/proc/1/environ"), "\x00") {
		if kind, ok := strings.CutPrefix(entry, "container="); ok {
			return kind
		}
	}
	if m.exists("/var/run/secrets/kubernetes.io") {
		return "kubernetes"
	}
	return ""
}

func denied(err error) bool { return errors.Is(err, fs.ErrPermission) }
func gone(err error) bool   { return errors.Is(err, fs.ErrNotExist) }

// failed reports whether the disk does not give back what is on it.
func failed(err error) bool { return errors.Is(err, syscall.EIO) }
