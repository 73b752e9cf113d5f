// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// Missing says what readiness waits for, one sentence each; nothing means ready.
func (a *Appliance) Missing() []string {
	a.mu.Lock()
	phase, waitsFor := a.phase, a.waitsFor
	a.mu.Unlock()
	switch phase {
	case admin.PhaseJoining:
		return []string{waitsFor}
	case admin.PhaseDraining, admin.PhaseStopped:
		return []string{"engine: stopping"}
	case admin.PhaseStarting:
		return []string{"engine: not started yet"}
	case admin.PhaseRecovering:
		return []string{"engine: " + recoveryLine(a.engine.Progress())}
	}
	out := a.storageMissing() // what the others may come from
	if err := a.engine.Health(); err != nil {
		out = append(out, "engine: "+err.Error())
	} else if err := a.engine.JetStreamReady(); err != nil {
		out = append(out, "jetstream: "+err.Error())
	}
	if a.held != "" {
		return append(out, fmt.Sprintf("cluster: node %s brings its messages, and clients are not let in before", a.held))
	}
	out = append(out, a.Quorum()...)
	out = append(out, a.unapplied()...)
	if phase == admin.PhaseApplying && len(out) == 0 {
		out = append(out, "client port: not open yet")
	}
	return out
}

// Status collects what the node knows about itself. While the engine is not
// up the accounts are left out.
func (a *Appliance) Status(ctx context.Context) (admin.Status, error) {
	cfg := a.config()
	// Each is a reason for what is asked after it: a disk that failed for a node that is
	// not ready, and that for its phase.
	var room admin.Storage
	a.addRoom(&room)
	missing := a.Missing()
	a.mu.Lock()
	phase, plan, report, stale, refused := a.phase, a.plan, a.report, a.stale, a.refused
	a.mu.Unlock()
	s := admin.Status{
		Ready:   len(missing) == 0,
		Phase:   phase,
		Missing: missing,
		Storage: room,
		Node: admin.NodeStatus{
			Name:          a.dir.NodeName(),
			Version:       a.opts.Version,
			NATSVersion:   engine.ServerVersion(),
			PID:           os.Getpid(),
			Started:       a.started,
			UptimeSeconds: time.Since(a.started).Seconds(),
			DataDir:       a.dir.Path(),
			ConfigFiles:   a.ownFiles(),
			ConfigDigest:  digest(cfg),
			MemoryLimit:   a.memLimit,
		},
		Listeners: a.listeners(),
		// As it was at the start: another one in the file needs a restart.
		Durability:  admin.Durability{Mode: a.opts.Config.Storage.Durability},
		NeedRestart: a.needRestart(),
		Accounts:    []admin.AccountStatus{},
		Problems:    admin.Problems(slices.Concat(a.opts.Warnings, plan.Warnings(), failures(report))),
	}
	if refused != nil && stale == nil { // which says so itself
		s.Problems = append(s.Problems, *refused)
	}
	if stale != nil {
		s.Problems = append(s.Problems, admin.Problem{Severity: diag.Error.String(), Code: diag.CodeOf(stale), What: stale.Error(), Fix: diag.Hint(stale)})
	}
	if s.Durability.Mode != "strict" {
		s.Durability.SyncIntervalSeconds = syncInterval(a.opts.Config).Seconds()
	}
	a.addStorage(&s)
	s.Damage = damages(engine.Damages(a.dir.StoreDir()))
	s.Verify = a.verifyStatus()
	a.addSecurity(&s)
	s.Cluster = a.clusterStatus()
	if p := a.engine.Progress(); phase == admin.PhaseRecovering && p.Counted() {
		s.Recovery = &admin.Recovery{StreamsDone: p.StreamsDone, StreamsTotal: p.StreamsTotal,
			BytesDone: p.BytesDone, BytesTotal: p.BytesTotal, Current: p.Current,
			BytesChecked: p.BytesChecked, BytesToCheck: p.BytesToCheck}
	}
	if phase != admin.PhaseRunning {
		return s, nil
	}
	names := a.accountNames()
	if a.cluster != nil && a.leader() != "" {
		names = append(slices.Clone(names), identity.InternalName) // whose copies count, too
	}
	observed := a.observe(ctx, names)
	if a.cluster != nil {
		a.addCopies(s.Cluster, observed)
		delete(observed.Accounts, identity.InternalName)
		s.Problems = append(s.Problems, clusterProblems(*s.Cluster)...)
	}
	ages := a.js.Ages(ctx, observed, time.Now())
	for _, name := range a.accountNames() {
		s.Accounts = append(s.Accounts, a.accountStatus(name, observed.Accounts[name], ages))
	}
	return s, nil
}

// observe reads the accounts. What can't be read is marked so in what comes back: without
// a leader that is all, and asking each account for it would take its time.
func (a *Appliance) observe(ctx context.Context, names []string) bootstrap.Observed {
	if a.cluster == nil || a.leader() != "" {
		observed, _ := a.js.Observe(ctx, names)
		return observed
	}
	out := bootstrap.Observed{Accounts: make(map[string]bootstrap.ObservedAccount, len(names))}
	for _, n := range names {
		out.Accounts[n] = bootstrap.ObservedAccount{Unavailable: errNoLeader.Error()}
	}
	return out
}

func (a *Appliance) listeners() []admin.Listener {
	a.mu.Lock()
	addr := a.clientAddr
	a.mu.Unlock()
	client := admin.Listener{Name: "client", Address: string(a.opts.Config.Listen.Client)}
	if addr != nil {
		client.Address, client.Open = addr.String(), true
	}
	out := []admin.Listener{client}
	if a.httpListener != nil {
		out = append(out, admin.Listener{Name: "http", Address: a.httpListener.Addr().String(), Open: true})
	}
	return append(out, admin.Listener{Name: "admin", Address: admin.Address(socketPath(a.dir)), Open: true})
}

// addStorage adds what is stored and where to what addRoom said.
func (a *Appliance) addStorage(s *admin.Status) {
	if vol, err := a.dir.Volume(); err == nil {
		s.Storage.VolumeTotal, s.Storage.VolumeFree, s.Storage.FileSystem = int64(vol.Total), int64(vol.Free), vol.FSType
		s.Storage.Promised = a.config().Promised(int64(vol.Total))
	}
	s.Storage.Limit, s.Storage.FlushSeconds = a.storeLimit, a.flush.Seconds()
	s.Storage.Encryption = a.encryptionStatus()
	st, err := a.engine.Stats()
	if err != nil {
		return // the engine is not up yet, or down already
	}
	s.Storage.Used, s.Storage.Reserved = st.StoreUsed, st.StoreReserved
	s.Storage.MemoryUsed, s.Storage.MemoryLimit = st.MemoryUsed, st.MemoryLimit
	s.Traffic = admin.Traffic{
		Connections: max(st.Connections-a.ownConnections(), 0), InMsgs: st.InMessages, InBytes: st.InBytes,
		OutMsgs: st.OutMessages, OutBytes: st.OutBytes, SlowConsumers: st.SlowConsumers,
	}
}

// addSecurity adds the certificates and what clients were not allowed.
func (a *Appliance) addSecurity(s *admin.Status) {
	if a.clientCerts != nil {
		for _, c := range a.clientCerts.Info() {
			s.Certificates = append(s.Certificates, admin.Certificate{
				Name: c.Name, Subject: c.Subject, Names: c.Names, NotBefore: c.NotBefore, NotAfter: c.NotAfter,
				Fingerprint: c.Fingerprint, Path: c.Path,
			})
		}
		s.Problems = append(s.Problems, admin.Problems(a.clientCerts.Warnings())...)
	}
	for _, r := range a.engine.Refusals() {
		s.Refusals = append(s.Refusals, admin.Refusal(r))
	}
}

func (a *Appliance) accountStatus(name string, have bootstrap.ObservedAccount, ages map[string]jetstream.Age) admin.AccountStatus {
	declared, inFile := a.config().Accounts[name]
	out := admin.AccountStatus{Name: name, InFile: inFile, Unavailable: have.Unavailable, Streams: []admin.StreamStatus{}, GroupCommit: a.groupCounters(name)}
	for _, sn := range slices.Sorted(maps.Keys(have.Streams)) {
		o := have.Streams[sn]
		ds, streamInFile := declared.Streams[sn]
		s := streamStatus(sn, o)
		s.InFile, s.GroupCommit = streamInFile, a.groupStatus(name, sn, streamInFile)
		for _, cn := range slices.Sorted(maps.Keys(o.Consumers)) {
			c := consumerStatus(cn, o.Consumers[cn], ages[name+"/"+sn+"/"+cn])
			_, c.InFile = ds.Consumers[cn]
			s.Consumers = append(s.Consumers, c)
		}
		out.Streams = append(out.Streams, s)
	}
	return out
}

func streamStatus(name string, o bootstrap.ObservedStream) admin.StreamStatus {
	s := admin.StreamStatus{
		Name:        name,
		Retention:   text(o.Config["retention"]),
		Storage:     text(o.Config["storage"]),
		Replicas:    number(o.Config["num_replicas"]),
		Messages:    o.State.Messages,
		Bytes:       o.State.Bytes,
		MaxMsgs:     number(o.Config["max_msgs"]),
		MaxBytes:    number(o.Config["max_bytes"]),
		MaxAge:      time.Duration(number(o.Config["max_age"])).Seconds(),
		FirstSeq:    o.State.FirstSeq,
		LastSeq:     o.State.LastSeq,
		Unavailable: o.Unavailable,
		Consumers:   []admin.ConsumerStatus{},
	}
	subjects, _ := o.Config["subjects"].([]any)
	for _, sub := range subjects {
		s.Subjects = append(s.Subjects, text(sub))
	}
	if o.State.Lost != nil {
		s.LostMsgs = len(o.State.Lost.Messages)
	}
	return s
}

func consumerStatus(name string, o bootstrap.ObservedConsumer, oldest jetstream.Age) admin.ConsumerStatus {
	st := o.State
	c := admin.ConsumerStatus{
		Name:           name,
		Lag:            st.NumPending + uint64(st.NumAckPending),
		NumPending:     st.NumPending,
		NumAckPending:  st.NumAckPending,
		NumRedelivered: st.NumRedelivered,
		NumWaiting:     st.NumWaiting,
		Paused:         st.Paused,
		Unavailable:    o.Unavailable,
	}
	switch {
	case o.Unavailable != "":
	case oldest.Err != nil:
		c.Unavailable = oldest.Err.Error()
	case oldest.Some:
		seconds := oldest.Oldest.Seconds()
		c.OldestUnacknowledged = &seconds
	}
	return c
}

func text(v any) string { s, _ := v.(string); return s }

func number(v any) int64 {
	n, ok := v.(json.Number)
	if !ok {
		return config.Unlimited
	}
	i, err := n.Int64()
	if err != nil {
		return config.Unlimited
	}
	return i
}
