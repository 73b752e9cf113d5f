// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// ready is 1 when /readyz answers 200.
var ready = prometheus.GaugeOpts{
	Name: "holdfast_ready",
	Help: "1 when the node is ready: the engine is up, and everything the configuration declares exists.",
}

// reloadSuccessful is Prometheus's own name for the same thing, with ours in front.
var reloadSuccessful = prometheus.GaugeOpts{
	Name: "holdfast_config_last_reload_successful",
	Help: "1 unless the latest reload was refused and the configuration before it is in force.",
}

var (
	differences = prometheus.NewDesc("holdfast_topology_differences",
		"Streams, consumers, accounts and users that differ from the configuration, by what `holdfast plan` calls it.", []string{"op"}, nil)
	comparedAt = prometheus.NewDesc("holdfast_topology_compared_timestamp_seconds",
		"When the server was last compared with the configuration, in seconds since 1970.", nil, nil)
	certificateExpiry = prometheus.NewDesc("holdfast_certificate_expiry_timestamp_seconds",
		"When the certificate of the client listener (server) or of its CA (ca), or that of the cluster's routes (route, route_ca), ends, in seconds since 1970.", []string{"certificate"}, nil)
	refusals = prometheus.NewDesc("holdfast_client_refusals_total",
		"What clients were not allowed since the start, by user and reason.", []string{"account", "user", "reason"}, nil)
	flushTime = prometheus.NewDesc("holdfast_storage_flush_seconds",
		"How long the volume took at the start to make a small append durable.", nil, nil)
	volumeTotal = prometheus.NewDesc("holdfast_storage_volume_bytes",
		"Size of the volume that the data directory is on.", nil, nil)
	volumeFree = prometheus.NewDesc("holdfast_storage_volume_free_bytes",
		"What is free on the volume that the data directory is on.", nil, nil)
	volumeMinFree = prometheus.NewDesc("holdfast_storage_min_free_bytes",
		"Publishing stops before less than this is free on the volume.", nil, nil)
	storeUsed = prometheus.NewDesc("holdfast_storage_used_bytes",
		"What the streams take on the disk.", nil, nil)
	storeLimit = prometheus.NewDesc("holdfast_storage_limit_bytes",
		"What the streams may take on the disk together (storage.limit).", nil, nil)
	storeReserved = prometheus.NewDesc("holdfast_storage_reserved_bytes",
		"Sum of max_bytes of the streams on the server that have one.", nil, nil)
	storePromised = prometheus.NewDesc("holdfast_storage_promised_bytes",
		"What the streams of the configuration may take together: storage.limit when one of them has no max_bytes.", nil, nil)
	flushObserved = prometheus.NewDesc("holdfast_storage_flush_observed_seconds",
		"How long a small write and its flush took, tried every few seconds while the node works.", nil, nil)
	writeErrors = prometheus.NewDesc("holdfast_storage_write_errors_total",
		"Writes that failed since the start: streams that could not be written, and tries of the node itself.", nil, nil)
	publishingStopped = prometheus.NewDesc("holdfast_storage_publishing_stopped",
		"1 while publishers are refused (JetStream error 10002) because the volume is nearly full or can't be written.", nil, nil)
	writable = prometheus.NewDesc("holdfast_storage_writable",
		"1 when the latest write to the data directory worked; tried every few seconds.", nil, nil)
	fullIn = prometheus.NewDesc("holdfast_storage_full_in_seconds",
		"When publishing stops, at the rate of the last minutes; absent when the volume does not fill up.", nil, nil)
	reopens = prometheus.NewDesc("holdfast_storage_reopens_total",
		"How often streams were read again since the start, because they could not be written.", nil, nil)
	damagedParts = prometheus.NewDesc("holdfast_storage_damaged_blocks",
		"Blocks and other parts of a stream that were found damaged and are in the quarantine, until somebody removes them there; absent when there are none.", []string{"account", "stream"}, nil)
	verifyRunning = prometheus.NewDesc("holdfast_verify_running",
		"1 while everything that is stored is read, to find damage.", nil, nil)
	verifyBytes = prometheus.NewDesc("holdfast_verify_bytes_total",
		"Bytes that were read since the start to find damage.", nil, nil)
	verifiedAt = prometheus.NewDesc("holdfast_verify_last_pass_timestamp_seconds",
		"When everything that is stored had been read last, in seconds since 1970; absent before the first time.", nil, nil)
	verifyDamaged = prometheus.NewDesc("holdfast_verify_damaged",
		"Damages that the latest whole pass found.", nil, nil)
	verifyHidden = prometheus.NewDesc("holdfast_verify_hidden_blocks",
		"Blocks that the latest whole pass could not look into, for they are encrypted and no key is at hand.", nil, nil)
	encrypted = prometheus.NewDesc("holdfast_storage_encrypted",
		"1, with the cipher, when stored messages are encrypted; absent when they are not.", []string{"cipher"}, nil)
	previousKey = prometheus.NewDesc("holdfast_storage_previous_key",
		"1 while the configuration names storage.encryption.previous_key, which is not needed once the node runs; absent without encryption.", nil, nil)
	grouped = prometheus.NewDesc("holdfast_group_commit_on",
		"1 for a declared stream whose messages are made durable together, 0 for one whose messages are not; `holdfast status` says why.", []string{"account", "stream"}, nil)
	groupMessages = prometheus.NewDesc("holdfast_group_commit_messages_total",
		"Messages that went through group commit since the start, by how: alone or grouped.", []string{"account", "how"}, nil)
	groupBatches = prometheus.NewDesc("holdfast_group_commit_batches_total",
		"Batches that were stored since the start.", []string{"account"}, nil)
	groupFallbacks = prometheus.NewDesc("holdfast_group_commit_fallbacks_total",
		"Batches that the server refused since the start; each of their messages went alone then.", []string{"account"}, nil)
	groupRefused = prometheus.NewDesc("holdfast_group_commit_refused_messages_total",
		"Messages that were refused since the start because too many waited.", []string{"account"}, nil)
	groupUnanswered = prometheus.NewDesc("holdfast_group_commit_unanswered_total",
		"Batches, and messages that went alone, that the server did not answer in time since the start.", []string{"account"}, nil)
)

func buildInfo(b Build) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{
		Name: "holdfast_build_info",
		Help: "Always 1; the labels tell what is running.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "commit": b.Commit, "nats_version": b.NATSVersion, "go_version": b.GoVersion,
		},
	}
}
