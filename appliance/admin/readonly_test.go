// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// ask sends a request to a read-only listener.
func ask(ro ReadOnly, method, target, host, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = host
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	ro.Handler().ServeHTTP(w, r)
	return w
}

func readOnly(missing ...string) ReadOnly {
	said := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
	}
	return ReadOnly{Ready: func() []string { return missing }, Metrics: said("metrics"), NATS: said("nats"), Hosts: []string{"queue.example", "10.0.0.7:8222"}}
}

func TestGuardLetsReadersOnlyIn(t *testing.T) {
	const token = "open-sesame"
	for _, c := range []struct {
		method, path, host, token, authorization string
		want                                     int
	}{
		{"GET", "/livez", "localhost:8222", "", "", 200},
		{"HEAD", "/livez", "localhost", "", "", 200},
		{"GET", "/varz", "127.0.0.1:8222", "", "", 200},
		{"GET", "/varz", "[::1]:8222", "", "", 200},
		{"GET", "/varz", "[::1]", "", "", 200},
		{"GET", "/metrics", "QUEUE.example:8222", "", "", 200},

		{"POST", "/varz", "localhost", "", "", 405},
		{"PUT", "/metrics", "localhost", "", "", 405},
		{"DELETE", "/livez", "localhost", "", "", 405},
		{"OPTIONS", "/varz", "localhost", "", "", 405},

		{"GET", "/varz", "evil.example", "", "", 421},
		{"GET", "/livez", "evil.example:8222", "", "", 421},
		{"GET", "/varz", "", "", "", 421},
		{"GET", "/varz", "localhost.evil.example", "", "", 421},

		{"GET", "/varz", "localhost", token, "", 401},
		{"GET", "/readyz", "localhost", token, "Bearer other", 401},
		{"GET", "/readyz", "localhost", token, "Bearer " + token + "x", 401},
		{"GET", "/readyz", "localhost", token, "Bearer", 401},
		{"GET", "/readyz", "localhost", token, "Basic " + token, 401},
		{"GET", "/nothing", "localhost", token, "", 401},
		{"GET", "/readyz", "localhost", token, "Bearer " + token, 200},
		{"GET", "/livez", "localhost", token, "", 200},
		{"GET", "/livez/", "localhost", token, "", 401},

		{"GET", "/stacksz", "localhost", "", "", 404},
		{"GET", "/debug/vars", "localhost", "", "", 404},
		{"GET", "/debug/pprof/", "localhost", "", "", 404},
		{"GET", "/v1/login", "localhost", "", "", 404},
		{"GET", "/varz/x", "localhost", "", "", 404},
	} {
		ro := readOnly()
		ro.Token = c.token
		if w := ask(ro, c.method, c.path, c.host, c.authorization); w.Code != c.want {
			t.Errorf("%s %s at %q, token %q, %q: got %d %q, want %d", c.method, c.path, c.host, c.token, c.authorization, w.Code, w.Body, c.want)
		}
	}
}

func TestAnswersAreNotKeptAndNotGuessed(t *testing.T) {
	for _, path := range []string{"/livez", "/metrics", "/varz", "/nothing"} {
		h := ask(readOnly(), "GET", path, "localhost", "").Header()
		if h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got headers %v, want no-store and nosniff", path, h)
		}
	}
}

func TestReadyzSaysWhatIsMissing(t *testing.T) {
	if w := ask(readOnly(), "GET", "/readyz", "localhost", ""); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("got %d %q, want 200 and ok", w.Code, w.Body)
	}
	w := ask(readOnly("engine: recovering", "topology: stream shop/ORDERS: no answer"), "GET", "/readyz", "localhost", "")
	if want := "[-] engine: recovering\n[-] topology: stream shop/ORDERS: no answer\n"; w.Code != 503 || w.Body.String() != want {
		t.Errorf("got %d %q, want 503 and %q", w.Code, w.Body, want)
	}
	if w := ask(readOnly("everything"), "GET", "/livez", "localhost", ""); w.Code != 200 {
		t.Errorf("got %d from /livez of a node that is not ready, want 200", w.Code)
	}
	if w := ask(readOnly(), "GET", "/", "localhost", ""); !strings.Contains(w.Body.String(), "/readyz") {
		t.Errorf("got %q, want the list of paths", w.Body)
	}
}
