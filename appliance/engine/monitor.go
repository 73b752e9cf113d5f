// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/nats-io/nats-server/v2/server"
)

// HTTPHandler serves the endpoints of NATS's own monitoring that only read, for
// the tools that know them. Left out are those that show the stack (/stacksz),
// the command line (/debug/vars) and the inside of the server (/raftz,
// /ipqueuesz).
//
// It serves no token check: whoever mounts it guards it.
func (e *Engine) HTTPHandler() http.Handler {
	mux := http.NewServeMux()
	for path, handle := range map[string]http.HandlerFunc{
		server.VarzPath:         e.server.HandleVarz,
		server.ConnzPath:        e.server.HandleConnz,
		server.RoutezPath:       e.server.HandleRoutez,
		server.GatewayzPath:     e.server.HandleGatewayz,
		server.LeafzPath:        e.server.HandleLeafz,
		server.SubszPath:        e.server.HandleSubsz,
		server.AccountzPath:     e.server.HandleAccountz,
		server.AccountStatzPath: e.server.HandleAccountStatz,
		server.JszPath:          e.server.HandleJsz,
		server.HealthzPath:      e.server.HandleHealthz,
	} {
		mux.Handle(path, readOnly(handle))
	}
	return mux
}

// readOnly runs one of the server's handlers and passes on what may be seen.
func readOnly(handle http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		answer := &answer{header: make(http.Header), status: http.StatusOK}
		handle(answer, r)

		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		body := answer.body.Bytes()
		// The server lets every web site read its answers
		// (Access-Control-Allow-Origin: *) and leaves the type of an error, which
		// repeats the request, to be guessed. Neither header is passed on.
		if answer.header.Get("Content-Type") == "application/json" {
			header.Set("Content-Type", "application/json")
			body = withoutTokens(body)
		} else {
			header.Set("Content-Type", "text/plain; charset=utf-8")
		}
		w.WriteHeader(answer.status)
		// A reader that went away is not an error.
		_, _ = w.Write(body)
	})
}

// answer collects what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// withoutTokens removes the JWTs. That of an MQTT user is its password, and the
// server hides it only as long as it can decode it.
func withoutTokens(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"jwt"`)) && !bytes.Contains(body, []byte(`"trusted_operators_jwt"`)) {
		return body
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	// Counters are larger than a float64 can hold.
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return []byte("{}")
	}
	removeTokens(v)
	clean, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return []byte("{}")
	}
	return clean
}

func removeTokens(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "jwt")
		delete(v, "trusted_operators_jwt")
		for _, inner := range v {
			removeTokens(inner)
		}
	case []any:
		for _, inner := range v {
			removeTokens(inner)
		}
	}
}
