// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"crypto/tls"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/join"
	"github.com/holdfast-mq/holdfast/appliance/metrics"
)

// serveHTTP opens listen.http for a node that waits for the identity of its cluster:
// alive, not ready, and why. It returns where it listens; nil when the file says nowhere.
func (j *joining) serveHTTP() (at net.Addr, closeHTTP func() error, err error) {
	addr := j.opts.Config.Listen.HTTP
	if addr == "" {
		return nil, func() error { return nil }, nil
	}
	token, err := j.opts.Config.Listen.HTTPToken.Reveal()
	if err != nil {
		return nil, nil, err
	}
	secured, err := j.httpTLS()
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", string(addr))
	if err != nil {
		return nil, nil, engine.ListenError("listen.http", string(addr), err)
	}
	at = l.Addr()
	if secured != nil {
		l = tls.NewListener(l, secured)
	}
	ro := admin.ReadOnly{
		Ready: j.missing, Quorum: j.missing,
		Metrics: metrics.Waiting(metrics.Build{
			Version: j.opts.Version, Commit: j.opts.Commit, NATSVersion: engine.ServerVersion(), GoVersion: runtime.Version(),
		}),
		NATS: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "the node waits for the others of its cluster", http.StatusServiceUnavailable)
		}),
		Hosts: j.opts.Config.Listen.Advertise,
		Token: token,
	}
	s := newServer(ro.Handler())
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) }) // ends with Close, below
	return at, func() error {
		err := s.Close()
		serving.Wait()
		return err
	}, nil
}

// httpTLS is for a listener beyond loopback; nil for one on it. The node is given the CA
// that clients trust with the identity, so that until then who verifies certificates is
// kept away, and a probe that does not gets its answer. Own files are there already.
func (j *joining) httpTLS() (*tls.Config, error) {
	l := j.opts.Config.Listen
	if l.HTTP.Loopback() {
		return nil, nil //nolint:nilnil // no TLS, no fault
	}
	if l.TLS.Mode == "files" {
		own, err := certs.OpenFiles(certs.Files{Cert: l.TLS.Cert, Key: l.TLS.Key, CA: l.TLS.CA, Verify: l.TLS.Verify}, time.Now)
		if err != nil {
			return nil, err
		}
		return own.TLSConfig(), nil
	}
	return certs.Stopgap(j.dir.NodeName(), machineNames(), time.Now())
}

// lookAtClock logs once that the clock of another node is apart: the first thing that a
// node learns of the others is the time to say it.
func (j *joining) lookAtClock(peer string, a join.Answer, asked time.Time, err error) {
	if err != nil || j.clocks[peer] {
		return
	}
	took := time.Since(asked)
	ahead := a.Time.Sub(asked.Add(took / 2))
	if ahead.Abs()-took/2 > clockBreaks {
		j.clocks[peer] = true
		j.opts.Log.Warn("the clocks of two nodes are apart", keyAddress, peer, keyNode, a.Node, keyCode, string(diag.CodeClusterClock), keyWhat, clockText(ahead), keyFix, clockFix)
	}
}
