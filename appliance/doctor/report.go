// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// report collects what a check finds.
type report struct {
	evidence string
	findings []Finding
	skipped  bool
}

// skip is for what does not apply here.
func skip(format string, args ...any) report {
	return report{evidence: fmt.Sprintf(format, args...), skipped: true}
}

// measured is the line that is shown when all is well.
func (r *report) measured(format string, args ...any) { r.evidence = fmt.Sprintf(format, args...) }

func (r *report) fail(evidence, consequence, fix string) { r.find(Fail, evidence, consequence, fix) }
func (r *report) warn(evidence, consequence, fix string) { r.find(Warn, evidence, consequence, fix) }

func (r *report) find(v Verdict, evidence, consequence, fix string) {
	r.findings = append(r.findings, Finding{v, evidence, consequence, fix})
}

// blind says that this user can't see enough, and how to see more.
func (r *report) blind(m *machine, evidence string) {
	r.find(Unknown, evidence+", as "+m.me().name, "what can't be seen can't be judged", m.again())
}

// failed says that the disk of a directory failed. What else looks wrong there comes from
// that, and is mended with it.
func (r *report) failed(dir string, err error) {
	r.fail(fmt.Sprintf("the disk of %s does not answer: %v", dir, err), "a node on it stores nothing, and none starts",
		comment("%s: nothing has to be restored unless the disk is lost", howto.Here().RepairDisk()))
}

// comment is a fix that only a person can carry out.
func comment(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	return "# " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n# ")
}

// lines joins commands and comments of one fix.
func lines(parts ...string) string { return strings.Join(parts, "\n") }

// some names the first few of a list and counts the rest.
func some(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// quote makes a word safe to paste into a shell.
func quote(word string) string { return howto.Here().Quote(word) }
