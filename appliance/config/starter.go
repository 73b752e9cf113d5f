// SPDX-License-Identifier: Apache-2.0

package config

import (
	_ "embed"
	"fmt"
	"strings"
)

// starterName is how the built-in starter is named in messages.
const starterName = "(built-in starter)"

//go:embed starter.yaml
var starterText []byte

const starterHead = `# Configuration of a Holdfast node. Lines that start with # show the other keys, with
# their defaults or an example. ` + "`holdfast check FILE`" + ` reports everything that is wrong with a file;
# docs/configuration.md explains it all.
`

// Starter returns the file that `holdfast init` writes: the account, stream and
// consumer of the built-in starter, and every other key as a comment. Unlike the
// built-in one it leaves the data directory to its default.
func Starter() []byte {
	w := starterWriter{live: map[string]string{
		"accounts.main.streams.JOBS.subjects":                     `["jobs.>"]`,
		"accounts.main.streams.JOBS.retention":                    "workqueue",
		"accounts.main.streams.JOBS.max_bytes":                    "256MiB",
		"accounts.main.streams.JOBS.consumers.worker.ack_wait":    "30s",
		"accounts.main.streams.JOBS.consumers.worker.max_deliver": "5",
		"accounts.main.users.admin.role":                          "admin",
	}}
	w.WriteString(starterHead)
	w.object(table(), nil)
	return []byte(w.String())
}

// starterWriter writes the key table as YAML. Keys below live are written as
// they are, and so is what leads to them; all others become comments.
type starterWriter struct {
	strings.Builder
	live map[string]string
}

func (w *starterWriter) object(n *node, p path) {
	for _, name := range n.order {
		w.key(n.fields[name], p.with(name))
	}
}

func (w *starterWriter) key(n *node, p path) {
	if len(p) == 1 {
		w.WriteString("\n")
	}
	value, live := w.live[p.String()]
	section := n.shape == shapeObject && n.key.Later == nil && !n.present && w.reached(p[:len(p)-1])
	switch {
	case live:
		w.line(p[:len(p)-1], p, "", value, n.key)
	case w.reached(p), section:
		w.line(p[:len(p)-1], p, "", "", n.key)
		w.below(n, p)
	default:
		w.comment(n, p, len(p)-1)
	}
}

// comment writes a key and what belongs to it behind a # in one column.
func (w *starterWriter) comment(n *node, p path, depth int) {
	prefix := "# " + strings.Repeat("  ", len(p)-1-depth)
	if n.shape != shapeObject {
		w.line(p[:depth], p, prefix, n.example(), n.key)
		return
	}
	w.line(p[:depth], p, prefix, "", n.key)
	for _, name := range n.order {
		w.comment(n.fields[name], p.with(name), depth)
	}
}

// below writes what is in a section: its keys, or the one object it shows.
func (w *starterWriter) below(n *node, p path) {
	if n.shape == shapeObject {
		w.object(n, p)
		return
	}
	for name := range w.live {
		rest, ok := strings.CutPrefix(name, p.String()+".")
		if !ok {
			continue
		}
		one, _, _ := strings.Cut(rest, ".")
		w.line(p, p.with(one), "", "", Key{})
		w.object(n.elem, p.with(one))
		return
	}
}

// reached reports whether a live key is below p, or p is the root.
func (w *starterWriter) reached(p path) bool {
	if len(p) < 2 && (len(p) == 0 || w.isSection(p)) {
		return true
	}
	for name := range w.live {
		if strings.HasPrefix(name, p.String()+".") {
			return true
		}
	}
	return false
}

func (w *starterWriter) isSection(p path) bool {
	n := table().child(p[0])
	return n.shape == shapeObject && n.key.Later == nil && !n.present
}

// line writes one key, indented as what stands in the path column.
func (w *starterWriter) line(column, p path, comment, value string, k Key) {
	text := strings.Repeat("  ", len(column)) + comment + p[len(p)-1] + ":"
	if value != "" {
		text += " " + value
	}
	if k.Help != "" {
		text = fmt.Sprintf("%-48s # %s", text, k.description())
	}
	w.WriteString(strings.TrimRight(text, " ") + "\n")
}

// example is the default, or a value that shows the form.
func (n *node) example() string {
	switch {
	case n.key.Default != "" && n.shape == shapeLeaf:
		return n.key.Default
	case n.key.Example != "":
		return n.key.Example
	case n.shape == shapeList:
		return "[]"
	case n.shape != shapeLeaf:
		return "{}"
	case len(n.key.Enum) > 0:
		return n.key.Enum[0]
	}
	examples := map[string]string{
		"boolean": "false", "number": "1", "size": "1GiB", "count": "1000", "share": "80%", "replicas": "auto",
		"duration": "1m", "time": "2026-01-31T18:00:00Z", "subject": `"orders.>"`,
	}
	if s, ok := examples[n.key.Kind]; ok {
		return s
	}
	return `""`
}
