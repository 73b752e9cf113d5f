// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// ready is 1 when /readyz answers 200.
var ready = prometheus.GaugeOpts{
	Name: "holdfast_ready",
	Help: "1 when the node is ready: the engine is up, and everything the configuration declares exists.",
}

func buildInfo(b Build) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{
		Name: "holdfast_build_info",
		Help: "Always 1; the labels tell what is running.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "commit": b.Commit, "nats_version": b.NATSVersion, "go_version": b.GoVersion,
		},
	}
}
