// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"cmp"
	"fmt"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Warnings returns one problem per difference that stands, per object that could
// not be read, and per object that Holdfast made and the file no longer declares.
// What clients made for themselves is no problem; the plan's text lists it.
func (p Plan) Warnings() diag.List {
	var l diag.List
	for _, a := range p.Actions {
		for _, c := range a.Adopted {
			l = append(l, diag.Problem{
				Severity: diag.Warning, Code: diag.CodeAdopted, Pos: a.Pos, Path: a.key(c.Field),
				What: fmt.Sprintf("the %s was not made by Holdfast and stays %s, where Holdfast makes it %s", a.Kind, shown(c.Field, c.Have), shown(c.Field, c.Want)),
				Fix:  "write the value that is meant into the file",
			})
		}
		w := diag.Problem{Severity: diag.Warning, Code: diag.CodeDiffers, Pos: a.Pos, Path: a.key("")}
		switch {
		case a.Op == Unmanaged && a.Stamped:
			w.Code = diag.CodeUnmanaged
			w.What = fmt.Sprintf("the %s is on the server and not in the file", a.Kind)
			w.Fix = fmt.Sprintf("declare it again, or delete it and what it holds: `holdfast nats --account %s %s rm %s`", a.Account, a.Kind, a.names())
			if a.Kind == KindAccount {
				w.Fix = "declare it again; this version removes no account, and one that nobody connects to does no harm"
			}
			l = append(l, w)
		case a.Op == Unknown:
			w.Code = diag.CodeObserve
			w.What = fmt.Sprintf("the %s was not compared: %s", a.Kind, a.Reason)
			w.Fix = "it is compared again by itself; if it stays, `holdfast status` says more"
			l = append(l, w)
		case a.Op == Create && a.Drift:
			w.What, w.Fix = fmt.Sprintf("the %s was deleted since the file was applied", a.Kind), a.fix()
			l = append(l, w)
		case a.Op.Changes() && len(a.Changes) == 0 && a.Kind == KindStream && a.Op != Create:
			w.What, w.Fix = fmt.Sprintf("the %s %s", a.Op, a.Reason), a.fix()
			l = append(l, w)
		case a.Op != Keep && a.Op != Unmanaged:
			for _, c := range a.Changes {
				w.Pos, w.Path, w.What, w.Fix = c.Pos, a.key(c.Field), a.says(c), a.fix()
				l = append(l, w)
			}
		}
	}
	return l
}

// says is what a change is about, and why it was not made.
func (a Action) says(c FieldChange) string {
	what := c.values()
	if a.Drift {
		what += "; it was changed on the server since the file was applied"
	}
	if c.Why != "" {
		what += "; " + c.Why
	}
	return what
}

// fix is how a person gets the action done, or the difference out of the way.
func (a Action) fix() string {
	const keep = ", or put the server's value in the file"
	switch {
	case a.Op == Blocked:
		return "put the server's value in the file, or declare a new " + string(a.Kind) + " under another name"
	case a.Op == Create:
		return "make it again with `holdfast apply`, or take it out of the file"
	case a.Consent == Allowed:
		return fmt.Sprintf("look at `holdfast plan`, then `holdfast apply --allow-destructive %s`%s", a.Allowance(), keep)
	}
	return cmp.Or(map[Op]string{OneWay: "it can't be taken back: look at `holdfast plan`, then `holdfast apply`" + keep}[a.Op],
		"make it what the file says with `holdfast apply`"+keep)
}
