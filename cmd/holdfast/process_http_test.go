// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ask sends a request to the node's HTTP listener.
func (n *node) ask(method, path string, change func(*http.Request)) (int, string) {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), method, "http://"+n.address("http")+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestProcessHTTPOnlyReads(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	publish(t, n.jetStream(), "orders.new", "an order")
	for path, want := range map[string]string{
		"/livez": "ok\n", "/readyz": "ok\n", "/metrics": "holdfast_ready 1", "/": "/readyz",
		"/varz": `"server_name"`, "/jsz?streams=true": `"messages": 1`, "/connz": `"connections"`, "/healthz": `"ok"`, "/subsz": `"num_subscriptions"`,
	} {
		if code, body := n.get(path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: got %d and %q, want 200 and %q", path, code, body, want)
		}
	}
	for _, path := range []string{"/stacksz", "/debug/vars", "/debug/pprof/", "/raftz", "/ipqueuesz", "/v1/login", "/v1/status"} {
		if code, _ := n.get(path); code != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, code)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		if code, _ := n.ask(method, "/varz", nil); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: got %d, want 405", method, code)
		}
	}
	if code, _ := n.ask(http.MethodGet, "/varz", func(r *http.Request) { r.Host = "evil.example" }); code != http.StatusMisdirectedRequest {
		t.Errorf("got %d for a foreign host name, want 421", code)
	}
	_, connz := n.get("/connz?auth=1&state=any")
	checkOutput(t, connz)
	if strings.Contains(connz, "eyJ") {
		t.Errorf("got a token in /connz, want none: %q", connz)
	}
	n.stop()
}

func TestProcessHTTPAsksForItsToken(t *testing.T) {
	t.Parallel()
	n := newNode(t, strings.Replace(shop, `http: "127.0.0.1:0"`, `http: "127.0.0.1:0", http_token: "file:token"`, 1))
	if err := os.WriteFile(filepath.Join(n.home, "token"), []byte("open-sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.start()
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	for _, path := range []string{"/readyz", "/metrics", "/varz"} {
		if code, _ := n.ask(http.MethodGet, path, nil); code != http.StatusUnauthorized {
			t.Errorf("%s: got %d without the token, want 401", path, code)
		}
		if code, _ := n.ask(http.MethodGet, path, bearer("other")); code != http.StatusUnauthorized {
			t.Errorf("%s: got %d with a wrong token, want 401", path, code)
		}
		if code, _ := n.ask(http.MethodGet, path, bearer("open-sesame")); code != http.StatusOK {
			t.Errorf("%s: got %d with the token, want 200", path, code)
		}
	}
	if code, _ := n.ask(http.MethodGet, "/livez", nil); code != http.StatusOK {
		t.Errorf("/livez: got %d without the token, want 200", code)
	}
	n.stop()
	if strings.Contains(n.log.String(), "open-sesame") {
		t.Error("got the token in the log, want it nowhere")
	}
}
