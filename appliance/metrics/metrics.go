// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"strings"
	"time"

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
	// ReloadFailed is true when the latest reload was refused.
	ReloadFailed() bool
	// Drift counts what differs from the configuration by what it takes to end it,
	// and says when that was looked at; zero before the first time.
	Drift() (byOp map[string]int, compared time.Time)
	// Certificates are those of the client listener.
	Certificates() []Certificate
	// Refusals are what clients were not allowed since the start.
	Refusals() []Refusal
	// GroupCommit is what group commit does.
	GroupCommit() GroupCommit
	// Storage is what is left of the volume.
	Storage() Storage
	// Cluster is how the nodes are that replicate to each other; nil on a single node.
	Cluster() *Cluster
}

// Certificate is a certificate and its end.
type Certificate struct {
	Name     string
	NotAfter time.Time
}

// Refusal is how often a user was refused something.
type Refusal struct {
	Account, User, Reason string
	Count                 uint64
}

// GroupCommit is what group commit does, and how long a flush of the disk took when
// that was measured.
type GroupCommit struct {
	Flush    time.Duration
	Streams  []GroupedStream
	Accounts []GroupedAccount
}

// GroupedStream is a declared stream and whether its messages are grouped.
type GroupedStream struct {
	Account, Stream string
	On              bool
}

// GroupedAccount counts what went through group commit in an account.
type GroupedAccount struct {
	Account string
	// Alone and Grouped are messages, by how they went; Refused those that were not let in.
	Alone, Grouped, Refused uint64
	// Batches were stored, Fallbacks refused by the server.
	Batches, Fallbacks uint64
	Unanswered         uint64 // batches and messages
}

// Storage is what is left of the store's volume, in bytes, and what the node does
// about it.
type Storage struct {
	Total, Free, MinFree uint64
	// Used is what streams take, of Limit; Reserved what those with a byte limit may
	// take, Promised what those of the file may.
	Used, Limit, Reserved, Promised uint64
	Stopped, Writable               bool
	// Flushes are those that the node tried.
	Flushes     Flushes
	WriteErrors uint64 // since the start
	// FullIn is when MinFree is reached as things go; 0 when they don't go there.
	FullIn  time.Duration
	Reopens int
	// Cipher is "" when nothing is encrypted. PreviousKey: a key before is still configured.
	Cipher      string
	PreviousKey bool
	// Damaged counts what was found damaged, by ACCOUNT/STREAM.
	Damaged map[string]int
	Verify  Verify
}

// Verify is what is known of passes that read everything that is stored.
type Verify struct {
	Running bool
	Bytes   uint64 // read since the start
	// Last is when the latest whole pass ended; zero before the first. It found Damaged,
	// and Hidden blocks could not be looked into.
	Last            time.Time
	Damaged, Hidden int
}

// Flushes are how long flushes of the disk took since the start.
type Flushes struct {
	Count uint64
	Sum   time.Duration
	UpTo  map[float64]uint64 // how many took no longer, by seconds
}

// Handler serves the metrics of a node in the Prometheus text format.
func Handler(b Build, n Node) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(buildInfo(b), func() float64 { return 1 }),
		prometheus.NewGaugeFunc(ready, func() float64 { return oneIf(len(n.Missing()) == 0) }),
		prometheus.NewGaugeFunc(reloadSuccessful, func() float64 { return oneIf(!n.ReloadFailed()) }),
		security{n},
		topology{n},
		groups{n},
		storage{n},
		cluster{n},
	)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// Waiting serves what a node can say that has not begun: what it is, and that it is not
// ready.
func Waiting(b Build) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(buildInfo(b), func() float64 { return 1 }),
		prometheus.NewGaugeFunc(ready, func() float64 { return 0 }),
	)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// topology collects how far the server is from the configuration.
type topology struct{ node Node }

func (topology) Describe(ch chan<- *prometheus.Desc) {
	ch <- differences
	ch <- comparedAt
}

func (t topology) Collect(ch chan<- prometheus.Metric) {
	byOp, at := t.node.Drift()
	if at.IsZero() {
		return
	}
	for op, n := range byOp {
		ch <- prometheus.MustNewConstMetric(differences, prometheus.GaugeValue, float64(n), op)
	}
	ch <- prometheus.MustNewConstMetric(comparedAt, prometheus.GaugeValue, float64(at.UnixMilli())/1000)
}

// security collects what has labels that are only known at the time.
type security struct{ node Node }

func (security) Describe(ch chan<- *prometheus.Desc) {
	ch <- certificateExpiry
	ch <- refusals
}

func (s security) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s.node.Certificates() {
		ch <- prometheus.MustNewConstMetric(certificateExpiry, prometheus.GaugeValue, float64(c.NotAfter.Unix()), c.Name)
	}
	for _, r := range s.node.Refusals() {
		ch <- prometheus.MustNewConstMetric(refusals, prometheus.CounterValue, float64(r.Count), r.Account, r.User, r.Reason)
	}
}

// groups collects what group commit does.
type groups struct{ node Node }

func (groups) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{flushTime, grouped, groupMessages, groupBatches, groupFallbacks, groupRefused, groupUnanswered} {
		ch <- d
	}
}

func (g groups) Collect(ch chan<- prometheus.Metric) {
	all := g.node.GroupCommit()
	ch <- prometheus.MustNewConstMetric(flushTime, prometheus.GaugeValue, all.Flush.Seconds())
	for _, s := range all.Streams {
		ch <- prometheus.MustNewConstMetric(grouped, prometheus.GaugeValue, oneIf(s.On), s.Account, s.Stream)
	}
	for _, a := range all.Accounts {
		count := func(d *prometheus.Desc, n uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{a.Account}, labels...)...)
		}
		count(groupMessages, a.Alone, "alone")
		count(groupMessages, a.Grouped, "grouped")
		count(groupBatches, a.Batches)
		count(groupFallbacks, a.Fallbacks)
		count(groupRefused, a.Refused)
		count(groupUnanswered, a.Unanswered)
	}
}

// storage collects what is left of the volume.
type storage struct{ node Node }

func (storage) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		volumeTotal, volumeFree, volumeMinFree, storeUsed, storeLimit, storeReserved, storePromised,
		publishingStopped, writable, fullIn, reopens, damagedParts, flushObserved, writeErrors,
		verifyRunning, verifyBytes, verifiedAt, verifyDamaged, verifyHidden, encrypted, previousKey,
	} {
		ch <- d
	}
}

func (s storage) Collect(ch chan<- prometheus.Metric) {
	v := s.node.Storage()
	gauge := func(d *prometheus.Desc, n float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n) }
	gauge(volumeTotal, float64(v.Total))
	gauge(volumeFree, float64(v.Free))
	gauge(volumeMinFree, float64(v.MinFree))
	gauge(storeUsed, float64(v.Used))
	gauge(storeLimit, float64(v.Limit))
	gauge(storeReserved, float64(v.Reserved))
	gauge(storePromised, float64(v.Promised))
	gauge(publishingStopped, oneIf(v.Stopped))
	gauge(writable, oneIf(v.Writable))
	if v.FullIn > 0 {
		gauge(fullIn, v.FullIn.Seconds())
	}
	if v.Cipher != "" {
		ch <- prometheus.MustNewConstMetric(encrypted, prometheus.GaugeValue, 1, v.Cipher)
		gauge(previousKey, oneIf(v.PreviousKey))
	}
	for stream, n := range v.Damaged {
		account, name, _ := strings.Cut(stream, "/")
		ch <- prometheus.MustNewConstMetric(damagedParts, prometheus.GaugeValue, float64(n), account, name)
	}
	ch <- prometheus.MustNewConstMetric(reopens, prometheus.CounterValue, float64(v.Reopens))
	ch <- prometheus.MustNewConstMetric(writeErrors, prometheus.CounterValue, float64(v.WriteErrors))
	ch <- prometheus.MustNewConstHistogram(flushObserved, v.Flushes.Count, v.Flushes.Sum.Seconds(), v.Flushes.UpTo)
	gauge(verifyRunning, oneIf(v.Verify.Running))
	ch <- prometheus.MustNewConstMetric(verifyBytes, prometheus.CounterValue, float64(v.Verify.Bytes))
	if !v.Verify.Last.IsZero() {
		gauge(verifiedAt, float64(v.Verify.Last.Unix()))
		gauge(verifyDamaged, float64(v.Verify.Damaged))
		gauge(verifyHidden, float64(v.Verify.Hidden))
	}
}
