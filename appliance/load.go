// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// packagedSocket is where the installed service has its admin socket
// (RuntimeDirectory= of the unit), for the packaged data directory. On Windows its
// name is made of the data directory's.
const packagedSocket = "/run/holdfast/admin.sock"

// LoadConfig reads and checks a configuration with all that this machine and
// the engine know about it. It opens no socket and writes nothing.
func LoadConfig(o config.Options) (*config.Config, diag.List) {
	o.AllowNATSKey = engine.AllowedKey
	o.Volume = func(dir string) (int64, error) {
		v, err := datadir.VolumeOf(dir)
		return int64(v.Total), err
	}
	cfg, l := config.Load(o)
	if l.Err() == nil {
		l = append(l, checkEngine(cfg)...)
		l = append(l, checkCertificates(cfg)...)
	}
	return cfg, l
}

// checkCertificates reads the files of listen.tls, as the node would.
func checkCertificates(cfg *config.Config) diag.List {
	t := cfg.Listen.TLS
	if t.Mode != "files" {
		return nil
	}
	_, err := certs.OpenFiles(certs.Files{Cert: t.Cert, Key: t.Key, CA: t.CA, Verify: t.Verify}, time.Now)
	if err == nil {
		return nil // what expires soon is said by the node
	}
	at, key := cfg.At("listen", "tls", "cert"), "cert"
	for k, file := range map[string]string{"key": t.Key, "ca": t.CA} {
		if file != "" && strings.Contains(err.Error(), file) {
			at, key = cfg.At("listen", "tls", k), k
		}
	}
	return diag.List{{Code: diag.CodeCertificate, Pos: at, Path: "listen.tls." + key, What: err.Error(),
		Fix: cmp.Or(diag.Hint(err), "correct the path, or the file")}}
}

// checkEngine asks the server itself whether it would take the keys of the
// nats block, each alone first, so that the one at fault is named.
func checkEngine(cfg *config.Config) diag.List {
	keys := cfg.NATSKeys()
	if len(keys) == 0 {
		return nil
	}
	id, err := identity.Throwaway()
	if err != nil {
		return diag.List{{Code: diag.CodeEngineConfig, What: err.Error(), Fix: "try again"}}
	}
	ask := func(keys []config.NATSKey) error {
		s := engineSettings(cfg, place{name: "check", store: os.TempDir(), resolver: os.TempDir()}, id.Trust(), checkBytes, checkBytes, "check")
		s.Extra = extra(keys)
		return engine.Check(s)
	}
	var l diag.List
	report := func(pos diag.Pos, path string, err error) {
		cause := err
		for range 2 { // the fault, and its "configure the engine", which the position says better
			if inner := errors.Unwrap(cause); inner != nil {
				cause = inner
			}
		}
		l = append(l, diag.Problem{Code: diag.CodeEngineConfig, Pos: pos, Path: path, What: strings.TrimPrefix(cause.Error(), path+": "), Fix: "correct the value"})
	}
	for _, k := range keys {
		if err := ask([]config.NATSKey{k}); err != nil {
			report(k.Pos, "nats."+k.Name, err)
		}
	}
	if len(l) == 0 {
		if err := ask(keys); err != nil {
			report(cfg.At("nats"), "nats", err)
		}
	}
	return l
}

// checkBytes stands for limits that are not known yet, in bytes.
const checkBytes = 1 << 40

// FindSocket returns the admin socket of the node with this data directory.
func FindSocket(dir string) string {
	s := datadir.SocketPath(dir)
	if _, err := os.Stat(s); err != nil && filepath.Clean(dir) == config.PackagedDataDir() && runtime.GOOS != "windows" {
		return packagedSocket
	}
	return s
}

// socketPath is where a node opens its socket: where systemd made a directory
// for it, else in the data directory.
func socketPath(dir *datadir.Dir) string {
	if run := os.Getenv("RUNTIME_DIRECTORY"); run != "" {
		return filepath.Join(run, filepath.Base(dir.Socket()))
	}
	return dir.Socket()
}

// listenAdmin opens the admin socket, and leaves word in the data directory of where it
// is: who names the directory, or a file that does, is to find the service's node too.
func listenAdmin(dir *datadir.Dir) (net.Listener, error) {
	path, own := socketPath(dir), dir.Socket()
	if info, err := os.Lstat(own); err == nil && info.Mode().Type() == fs.ModeSymlink {
		if err := os.Remove(own); err != nil {
			return nil, fmt.Errorf("listen on admin socket: %w", err)
		}
	}
	l, err := admin.Listen(path)
	if err != nil || path == own || dir.Path() == config.PackagedDataDir() {
		return l, err
	}
	// A socket there is one that a node left which was killed.
	if err := os.Remove(own); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("link the admin socket: %w", err), l.Close())
	}
	if err := os.Symlink(path, own); err != nil {
		return nil, errors.Join(fmt.Errorf("link the admin socket: %w", err), l.Close())
	}
	return l, nil
}

// CheckStore refuses a data directory that this version can't open, such as one of a
// newer version. It only reads.
func CheckStore(dir string) error { return datadir.CheckFormat(dir) }

// NATSVersion is the version of the nats-server inside.
func NATSVersion() string { return engine.ServerVersion() }

// DataDir is where the node keeps its data.
func (a *Appliance) DataDir() string { return a.dir.Path() }

// Addresses returns the open listeners by name.
func (a *Appliance) Addresses() map[string]string {
	out := map[string]string{}
	for _, l := range a.listeners() {
		if l.Open {
			out[l.Name] = l.Address
		}
	}
	return out
}
