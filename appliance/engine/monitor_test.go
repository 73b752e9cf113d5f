// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

func ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

func TestMonitorAnswersLikeNATS(t *testing.T) {
	r := newRealm(t, "shop")
	e := started(t, r, r.settings(t), nil)
	connect(t, r, e, "shop")
	fill(t, r, e, "shop", 1, 1)
	h := e.HTTPHandler()
	for target, want := range map[string]string{
		"/varz":                  `"server_name": "n1"`,
		"/connz":                 `"kind": "Client"`,
		"/connz?auth=1&subs=1":   `"authorized_user": "U`,
		"/routez":                `"num_routes": 0`,
		"/gatewayz":              `"outbound_gateways": {}`,
		"/leafz":                 `"leafnodes": 0`,
		"/subsz":                 `"num_subscriptions"`,
		"/accountz":              r.public(t, "shop"),
		"/accstatz?unused=1":     `"account_statz"`,
		"/jsz?streams=1&acc=SYS": `"streams": 1`,
		"/healthz":               `"status":"ok"`,
	} {
		w := ask(h, http.MethodGet, target)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %d %s, want %s in it", target, w.Code, w.Body, want)
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: got Access-Control-Allow-Origin %q, want none", target, got)
		}
	}
	if w := ask(h, http.MethodHead, "/varz"); w.Code != http.StatusOK {
		t.Errorf("HEAD /varz: got %d, want 200", w.Code)
	}
}

func TestMonitorOnlyReads(t *testing.T) {
	r := newRealm(t)
	h := started(t, r, r.settings(t), nil).HTTPHandler()
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch} {
		w := ask(h, method, "/varz")
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: got %d, Allow %q, want 405", method, w.Code, w.Header().Get("Allow"))
		}
	}
	for _, target := range []string{"/", "/stacksz", "/debug/vars", "/raftz", "/ipqueuesz", "/varz/x"} {
		if w := ask(h, http.MethodGet, target); w.Code != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", target, w.Code)
		}
	}
}

func TestMonitorShowsNoTokenAndNoArgument(t *testing.T) {
	r := newRealm(t, "shop")
	e := started(t, r, r.settings(t), nil)
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(public(t, user))
	claims.BearerToken = true
	token, err := claims.Encode(r.keys["shop"])
	if err != nil {
		t.Fatal(err)
	}
	bearer := nats.UserJWT(func() (string, error) { return token, nil }, func([]byte) ([]byte, error) { return nil, nil })
	nc, err := nats.Connect("", nats.InProcessServer(e), bearer, nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	connect(t, r, e, "shop")

	h := e.HTTPHandler()
	for _, target := range []string{
		"/varz", "/connz?auth=1", "/connz?auth=1&state=all&subs=detail", "/accountz?acc=" + r.public(t, "shop"),
		"/subsz?subs=1", "/accstatz?unused=1", "/jsz?accounts=1&streams=1&consumers=1&config=1", "/leafz", "/routez",
	} {
		body := ask(h, http.MethodGet, target).Body.String()
		if len(body) < 20 {
			t.Errorf("%s: got %q, want an answer", target, body)
		}
		// Every JWT begins with the same letters.
		for _, secret := range []string{token, "eyJ", os.Args[0]} {
			if strings.Contains(body, secret) {
				t.Errorf("%s: got %q in the answer", target, secret)
			}
		}
	}
}

func TestMonitorErrorIsPlainText(t *testing.T) {
	r := newRealm(t)
	h := started(t, r, r.settings(t), nil).HTTPHandler()
	w := ask(h, http.MethodGet, "/connz?state=%3Cscript%3E")
	if w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") ||
		w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %d %v, want a plain text 400", w.Code, w.Header())
	}
}

func TestMonitorOutlivesTheServer(t *testing.T) {
	r := newRealm(t)
	e := newEngine(t, r, r.settings(t), nil)
	h := e.HTTPHandler()
	paths := []string{"/varz", "/connz", "/jsz", "/accountz", "/accstatz", "/subsz", "/healthz"}
	for _, p := range paths {
		ask(h, http.MethodGet, p)
	}
	if w := ask(h, http.MethodGet, "/healthz"); w.Code == http.StatusOK {
		t.Errorf("got %d from /healthz before the start", w.Code)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		ask(h, http.MethodGet, p)
	}
}
