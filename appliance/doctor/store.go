// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// lookAtStore asks whether this version could open the data directory.
func lookAtStore(_ context.Context, m *machine) report {
	var r report
	dir := m.dataDir()
	if dir == "" {
		return skip("the configuration names no data directory")
	}
	stamp, err := datadir.Look(dir, m.in.Config.Node.Name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		r.blind(m, "can't look into "+dir)
	case failed(err):
		r.failed(dir, err)
	case err != nil:
		r.fail(err.Error(), "the node does not start on it", comment("%s", cmp.Or(diag.Hint(err), "restore the data directory from a backup")))
	case stamp.Format == 0:
		r.measured("%s is new%s", dir, m.assumed())
	default:
		r.measured("%s: node %s, format %d, last opened by version %s", dir, stamp.NodeName, stamp.Format, stamp.WrittenBy)
	}
	return r
}

// lookAtCertificates says which certificates have ended or soon will.
func lookAtCertificates(_ context.Context, m *machine) report {
	var r report
	l := m.in.Config.Listen
	switch {
	case l.TLS.Mode == "files":
		m.lookAtOwnFiles(&r)
		return r
	case l.Client.Loopback() && (l.HTTP == "" || l.HTTP.Loopback()):
		return skip("listeners on loopback need none")
	}
	dir := filepath.Join(m.dataDir(), "tls")
	infos, err := certs.LookAuto(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return skip("the node makes its own at the first start")
	case errors.Is(err, fs.ErrPermission):
		r.blind(m, "can't read the certificates in "+dir)
		return r
	case err != nil:
		r.fail(err.Error(), "clients can't connect over TLS", comment("restore %s from a backup", dir))
		return r
	}
	m.judge(&r, infos, func(i certs.Info) string {
		if i.Name == certs.CA {
			return comment("plan a new CA: stop the node, delete %s, start it, and give every client the new CA (%s ca)", dir, m.in.Program)
		}
		// The node issues a new one when there is none.
		return lines(m.asRoot("rm "+quote(i.Path)), m.restart())
	})
	return r
}

// lookAtOwnFiles is for listen.tls.mode files: what the node itself would say.
func (m *machine) lookAtOwnFiles(r *report) {
	l := m.in.Config.Listen
	s, err := certs.OpenFiles(certs.Files{Cert: l.TLS.Cert, Key: l.TLS.Key, CA: l.TLS.CA, Verify: l.TLS.Verify, Names: hosts(l.Advertise)}, m.now)
	switch {
	case errors.Is(err, fs.ErrPermission):
		r.blind(m, err.Error())
		return
	case err != nil:
		r.fail(err.Error(), "the node does not start with these files", asCommand(m, diag.Hint(err)))
		return
	}
	fix := func(i certs.Info) string {
		return comment("order a new certificate and put it into %s; the node takes it within a minute", i.Path)
	}
	m.judge(r, s.Info(), fix)
	for _, w := range s.Warnings() {
		if w.Code != diag.CodeExpiry {
			r.warn(w.String(), "clients refuse such a certificate", comment("%s", w.Fix))
		}
	}
}

// asCommand takes a hint that is a command as one.
func asCommand(m *machine, hint string) string {
	if len(hint) > 6 && hint[:6] == "chmod " {
		return m.asRoot(hint)
	}
	return comment("%s", hint)
}

func (m *machine) judge(r *report, infos []certs.Info, fix func(certs.Info) string) {
	now := m.now()
	if !certs.ClockIsSet(now) {
		r.find(Unknown, "the clock shows "+now.UTC().Format("2006-01-02"), "without the time no certificate can be judged", comment("see the check clock"))
		return
	}
	var text string
	for _, i := range infos {
		days := int(i.NotAfter.Sub(now).Hours() / 24)
		text = cmp.Or(text, count(days, "day")+" left: "+i.Path+" ends on "+i.NotAfter.UTC().Format("2006-01-02"))
		what := i.Expiry(now)
		if what == "" {
			continue
		}
		evidence := what + ", in " + i.Path
		if i.NotAfter.After(now) && i.NotBefore.Before(now) {
			r.warn(evidence+": "+count(days, "day")+" left", "from then on no client connects over TLS", fix(i))
		} else {
			r.fail(evidence, "no client connects over TLS", fix(i))
		}
	}
	r.measured("%s", text)
}
