// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Build is what holdfast_build_info tells.
type Build struct {
	Version     string
	Commit      string
	NATSVersion string
	GoVersion   string
}

// Node is what the metrics read.
type Node interface {
	// Missing says what readiness waits for; nothing means ready.
	Missing() []string
}

// Handler serves the metrics of a node in the Prometheus text format.
func Handler(b Build, n Node) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(buildInfo(b), func() float64 { return 1 }),
		prometheus.NewGaugeFunc(ready, func() float64 {
			if len(n.Missing()) == 0 {
				return 1
			}
			return 0
		}),
	)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}
