// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// ReadOnly is what the TCP listener serves. Nothing behind it changes anything
// or shows a secret.
type ReadOnly struct {
	// Ready reports what readiness waits for; nothing means ready.
	Ready func() (missing []string)
	// Quorum reports why the nodes of a cluster can't agree now; nothing when they can.
	Quorum  func() (missing []string)
	Metrics http.Handler
	NATS    http.Handler // nats-server's own monitoring endpoints
	// Hosts are names, besides localhost and addresses, that requests may use.
	Hosts []string
	// Token must be in the Authorization header when it is not empty.
	Token string
}

// natsPaths are nats-server's endpoints that existing tools read.
var natsPaths = []string{
	"/varz", "/connz", "/routez", "/gatewayz", "/leafz", "/subsz", "/accountz", "/accstatz", "/jsz", "/healthz",
}

// Handler serves /livez, /readyz, /quorumz, /metrics and nats-server's own endpoints.
func (ro ReadOnly) Handler() http.Handler {
	mux := http.NewServeMux()
	// Alive is that this answers: a node whose disk, peers or configuration are
	// in trouble is not made better by being restarted.
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("/readyz", answers(ro.Ready))
	mux.HandleFunc("/quorumz", answers(ro.Quorum))
	mux.Handle("/metrics", ro.Metrics)
	for _, p := range natsPaths {
		mux.Handle(p, ro.NATS)
	}
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "Holdfast. Read-only: /livez /readyz /quorumz /metrics %s\n", strings.Join(natsPaths, " "))
	})
	return ro.guard(mux)
}

// answers serves what is missing of something.
func answers(ask func() (missing []string)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		missing := ask()
		if len(missing) == 0 {
			io.WriteString(w, "ok\n")
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		for _, m := range missing {
			fmt.Fprintf(w, "[-] %s\n", m)
		}
	}
}

// guard refuses what a reader does not need: other methods, host names that a
// web page elsewhere could point at this address (DNS rebinding), and readers
// without the token.
func (ro ReadOnly) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "read only: use GET", http.StatusMethodNotAllowed)
		case !ro.knownHost(r.Host):
			http.Error(w, fmt.Sprintf("unknown host %q: ask by address or as localhost", r.Host), http.StatusMisdirectedRequest)
		case ro.Token != "" && r.URL.Path != "/livez" && !ro.hasToken(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token of listen.http_token is needed: Authorization: Bearer TOKEN", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (ro ReadOnly) knownHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" || net.ParseIP(host) != nil {
		return true
	}
	for _, known := range ro.Hosts {
		if strings.EqualFold(host, known) {
			return true
		}
	}
	return false
}

func (ro ReadOnly) hasToken(r *http.Request) bool {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(got), []byte(ro.Token)) == 1
}
