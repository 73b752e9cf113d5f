// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

// blockFor is the block `cluster:` of a machine that joins.
func blockFor(g join.Grant) *config.Cluster {
	return &config.Cluster{Name: g.Cluster, Peers: g.Peers, Advertise: g.For, Listen: listenFor(g)}
}

// listenFor is where the machine listens for the others: as the node that made the token
// does, with the port that it has itself.
func listenFor(g join.Grant) config.Address {
	theirs := (&config.Cluster{Listen: config.Address(g.Listen)}).Routes()
	host, port := theirs.Split()
	ownHost, ownPort := config.Address(g.For).Split()
	if g.For == "" {
		ownPort = port
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		// It is that node's address, and not this one's.
		host = "0.0.0.0"
		if own := net.ParseIP(ownHost); own != nil {
			host = ownHost
		}
	}
	listen := config.Address(net.JoinHostPort(host, fmt.Sprint(ownPort)))
	if listen == (&config.Cluster{}).Routes() {
		return "" // the default
	}
	return listen
}

// notes say what the file of another node does not settle.
func notes(g join.Grant, cfg *config.Config, whole bool) []string {
	var out []string
	if !whole {
		out = append(out, fmt.Sprintf("accounts, users and streams in the file here stay as they are; make them those of node %s, for the node that leads applies its own. `holdfast cluster status` says whose file differs", g.Node))
		return out
	}
	for _, l := range []struct {
		key  string
		addr config.Address
	}{{"listen.client", cfg.Listen.Client}, {"listen.http", cfg.Listen.HTTP}} {
		host, _ := l.addr.Split()
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() && !ip.IsLoopback() {
			out = append(out, fmt.Sprintf("%s is %s, which may be the address of node %s alone: write this machine's", l.key, l.addr, g.Node))
		}
	}
	if len(cfg.Listen.Advertise) > 0 {
		out = append(out, fmt.Sprintf("listen.advertise has the names of node %s: write this machine's", g.Node))
	}
	return out
}

// like is whom the files belong to: the service reads its configuration.
func (t TokenJoin) like() string {
	for _, path := range []string{t.File, strings.TrimSuffix(t.File, filepath.Ext(t.File)) + ".d"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return filepath.Dir(t.File)
}

// addSecret adds the file of the secret, unless it is there as it should be.
func (a *Admission) addSecret(path string, g join.Grant) error {
	data, err := os.ReadFile(path)
	switch {
	case err == nil && bytes.Equal(bytes.TrimRight(data, "\r\n"), g.Secret):
		return nil
	case err == nil:
		return diag.Fail(diag.CodeClusterOwn, fmt.Errorf("%s is there already, with another secret", path),
			"move it away and run this again: the token works from here until it expires")
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look whether the secret is there: %w", err)
	}
	perm := fs.FileMode(0o600)
	if ownedByService() {
		perm = 0o640 // the service reads it as its group
	}
	a.Files = append(a.Files, FileChange{Path: path, What: "written: the secret of the cluster", data: append(bytes.Clone(g.Secret), '\n'), perm: perm})
	return nil
}

// ownedByService reports whether files are written by root for the service.
func ownedByService() bool { return os.Geteuid() == 0 }

// write is the file with the block: that of the other node on a machine that has none or
// the untouched starter (whole), else its own.
func (t TokenJoin) write(g join.Grant, texts []config.Text, block []byte) (change FileChange, next []config.Text, whole bool) {
	base, what, perm := []byte(nil), "written", fs.FileMode(0o640)
	fresh := len(texts) == 0 || len(texts) == 1 && bytes.Equal(texts[0].Data, config.Starter())
	if len(texts) > 0 {
		what = "the block `cluster:` is added at its end"
		base = texts[0].Data
		if info, err := os.Stat(t.File); err == nil {
			perm = info.Mode().Perm()
		}
	}
	if whole = fresh && g.File != nil; whole {
		base = g.File
		if len(texts) > 0 {
			what = "the starter in it is replaced"
		}
		what += ": the configuration of node " + g.Node
	}
	data := bytes.Clone(base)
	if len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n')
	}
	if len(data) > 0 {
		data = append(data, '\n')
	}
	added := append([]byte("# By `holdfast cluster join`, from node "+g.Node+".\n"), block...)
	data = append(data, added...)
	next = []config.Text{{Name: t.File, Data: data}}
	if len(texts) > 1 {
		next = append(next, texts[1:]...)
	}
	return FileChange{Path: t.File, What: what, Text: string(added), data: data, perm: perm}, next, whole
}
