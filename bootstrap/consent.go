// SPDX-License-Identifier: Apache-2.0

package bootstrap

import "slices"

// Consents is what a person agreed to. Its zero value is that of a start and a
// reload, where nobody is there to agree.
type Consents struct {
	// Confirmed is true when somebody saw the plan and said yes.
	Confirmed bool `json:"confirmed,omitempty"`
	// Allow lists the streams, as ACCOUNT/STREAM, whose messages may be removed.
	Allow []string `json:"allow,omitempty"`
}

// Cover reports whether they are enough for an action.
func (c Consents) Cover(a Action) bool {
	switch a.Consent {
	case NoConsent:
		return true
	case Confirmed:
		return c.Confirmed
	}
	return c.Confirmed && slices.Contains(c.Allow, a.Allowance())
}

// Uncalled are the streams that may lose messages and don't in this plan: most
// likely a name was mistyped.
func (c Consents) Uncalled(p Plan) []string {
	return slices.DeleteFunc(slices.Clone(c.Allow), func(name string) bool {
		return slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Consent == Allowed && a.Allowance() == name })
	})
}
