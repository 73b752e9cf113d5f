// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"net"
	"os"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/metrics"
)

// openCerts prepares TLS: with own certificates where the file names them, with
// an own CA where a listener is not on loopback, and not at all otherwise.
func (a *Appliance) openCerts() error {
	l := a.opts.Config.Listen
	beyond := !l.Client.Loopback() || l.HTTP != "" && !l.HTTP.Loopback()
	var err error
	switch {
	case l.TLS.Mode == "files":
		a.clientCerts, err = certs.OpenFiles(certs.Files{
			Cert: l.TLS.Cert, Key: l.TLS.Key, CA: l.TLS.CA, Verify: l.TLS.Verify, Names: a.certNames(),
		}, time.Now)
	case beyond:
		a.clientCerts, err = certs.OpenAuto(certs.Options{
			Dir: a.dir.TLSDir(), Write: datadir.WriteFile, Now: time.Now, Names: a.certNames(), NodeName: a.dir.NodeName(),
		})
	}
	if err != nil {
		return err
	}
	if a.clientCerts != nil {
		a.warn(a.clientCerts.Warnings())
	}
	return nil
}

// certNames are what clients may call this node: what the file advertises, the
// hosts it listens on, and, where that is every interface, this machine's name
// and addresses.
func (a *Appliance) certNames() []string {
	l := a.opts.Config.Listen
	var names []string
	add := func(name string) {
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		names = append(names, name)
	}
	for _, n := range l.Advertise {
		add(n)
	}
	everywhere := false
	for _, addr := range []config.Address{l.Client, l.HTTP} {
		host, _ := addr.Split()
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			everywhere = true
		} else if host != "" {
			add(host)
		}
	}
	if everywhere {
		names = append(names, machineNames()...)
	}
	return names
}

func (a *Appliance) certsEvery() time.Duration { return cmp.Or(a.opts.CertsEvery, certs.Every) }

// tendNames keeps the certificate's names current, until ctx is done: an edge
// node may get its address long after it has started.
func (a *Appliance) tendNames(ctx context.Context) {
	tick := time.NewTicker(a.certsEvery())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.clientCerts.SetNames(a.certNames())
		}
	}
}

func machineNames() []string {
	var names []string
	if h, err := os.Hostname(); err == nil {
		names = append(names, h)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return names // loopback and the file's names are in the certificate all the same
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			names = append(names, n.IP.String())
		}
	}
	return names
}

// engineSettings is the configuration as the engine needs it, with the
// certificates for its listener.
func (a *Appliance) engineSettings(storeLimit int64) (engine.Settings, error) {
	s := engineSettings(a.opts.Config, placeOf(a.dir), a.identity.Trust(), storeLimit, a.memLimit, a.opts.Version)
	l := a.opts.Config.Listen
	if a.clientCerts != nil && (l.TLS.Mode == "files" || !l.Client.Loopback()) {
		s.TLS = a.clientCerts.TLSConfig()
	}
	var err error
	s.Cluster, err = a.engineCluster()
	if s.Cluster != nil {
		s.Cluster.Closed = a.spread != nil
	}
	if a.held != "" { // its server has to listen, and nobody is to come
		s.ClientHost, s.ClientPort = "127.0.0.1", 0
	}
	return s, err
}

// Certificates are those of the client listener and of the routes, for metrics.
func (a *Appliance) Certificates() []metrics.Certificate {
	var out []metrics.Certificate
	for _, c := range a.describeCerts(time.Now()) {
		out = append(out, metrics.Certificate{Name: c.Name, NotAfter: c.NotAfter})
	}
	return out
}

// Refusals are what clients were not allowed since the start, for metrics.
func (a *Appliance) Refusals() []metrics.Refusal {
	var out []metrics.Refusal
	for _, r := range a.engine.Refusals() {
		out = append(out, metrics.Refusal{Account: r.Account, User: r.User, Reason: r.Reason, Count: r.Count})
	}
	return out
}
