// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
)

type node []string

func (n node) Missing() []string { return n }

func scrape(n Node) string {
	w := httptest.NewRecorder()
	b := Build{Version: "0.1.0", Commit: "abc", NATSVersion: "2.15.3", GoVersion: "go1.26"}
	Handler(b, n).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestReadyIsOneWhenNothingIsMissing(t *testing.T) {
	for want, n := range map[string]node{"holdfast_ready 1\n": nil, "holdfast_ready 0\n": {"engine: recovering"}} {
		if got := scrape(n); !strings.Contains(got, want) {
			t.Errorf("missing %v: got %q, want %q in it", n, got, want)
		}
	}
}

func TestMetricsTellWhatIsRunning(t *testing.T) {
	got := scrape(node(nil))
	for _, want := range []string{
		`holdfast_build_info{commit="abc",go_version="go1.26",nats_version="2.15.3",version="0.1.0"} 1`,
		"# HELP holdfast_ready ", "# TYPE holdfast_ready gauge", "go_goroutines ", "process_",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got metrics without %q, want it there", want)
		}
	}
}
