// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// lookAtConfig shows what reading the configuration found.
func lookAtConfig(_ context.Context, m *machine) report {
	var r report
	for _, p := range m.in.Problems {
		what := fmt.Sprintf("%s [%s]", p, p.Code)
		switch {
		case m.hiddenFromMe(p):
			r.blind(m, what)
		case p.Severity == diag.Error:
			r.fail(what, "a node with this configuration does not start, and a running one does not take it over", configFix(m, p))
		default:
			r.warn(what, "a node with this configuration runs, and this will hurt later", configFix(m, p))
		}
	}
	c := m.in.Config
	streams := 0
	for _, a := range c.Accounts {
		streams += len(a.Streams)
	}
	r.measured("%s: accounts %d, streams %d", cmp.Or(m.in.File, "built-in starter"), len(c.Accounts), streams)
	return r
}

// hiddenFromMe reports whether a problem is only that this user may not read what
// the node may.
func (m *machine) hiddenFromMe(p diag.Problem) bool {
	if m.uid == 0 || !m.hidden() && m.owner().uid == m.uid {
		return false
	}
	return strings.Contains(p.What, fs.ErrPermission.Error())
}

// hidden reports whether this user may not read the configuration: whatever stands
// in its place then is not what the node goes by.
func (m *machine) hidden() bool {
	if m.in.File == "" || m.uid == 0 {
		return false
	}
	for _, file := range config.Files(m.in.File) {
		f, err := os.Open(file)
		if denied(err) {
			return true
		}
		if err == nil {
			f.Close()
		}
	}
	return false
}

// configFix is a comment: what is meant only a person knows. A file that is not
// there at all has a command.
func configFix(m *machine, p diag.Problem) string {
	if p.Code == diag.CodeUnreadable && p.Pos.File == m.in.File && m.in.File != "" {
		if _, err := os.Stat(m.in.File); gone(err) {
			return m.asRoot(fmt.Sprintf("%s init %s", quote(m.in.Program), quote(absolute(m.in.File))))
		}
	}
	return comment("%s, then: %s check %s", cmp.Or(p.Fix, "correct it"), m.in.Program, m.in.File)
}

// assumed is what stands behind values that come from no file.
func (m *machine) assumed() string {
	for _, p := range m.in.Problems {
		if p.Code == diag.CodeUnreadable || p.Code == diag.CodeSyntax {
			return " (the default: the configuration can't be read)"
		}
	}
	return ""
}
