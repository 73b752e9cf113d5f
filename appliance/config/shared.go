// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Shared is the text of a configuration file without what is one node's own: the blocks
// node, of which only data_dir stays, and cluster. It is cut by lines, so that everything
// else is as somebody wrote it; false where that is not possible.
func Shared(text []byte) ([]byte, bool) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return nil, false
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode || root.Style&yaml.FlowStyle != 0 {
		return nil, false
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	var out []byte
	done := 0 // lines that were looked at
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if key.Value != "node" && key.Value != "cluster" {
			continue
		}
		end := len(lines)
		if i+2 < len(root.Content) {
			end = root.Content[i+2].Line - 1
		}
		// Comments at the margin are the next key's.
		for end > key.Line && isComment(lines[end-1]) {
			end--
		}
		out = append(out, bytes.Join(lines[done:key.Line-1], nil)...)
		if key.Value == "node" {
			out = append(out, ownDataDir(value)...)
		}
		done = end
	}
	return append(out, bytes.Join(lines[done:], nil)...), true
}

func isComment(line []byte) bool {
	return len(bytes.TrimSpace(line)) == 0 || line[0] == '#'
}

// ownDataDir is the block node with data_dir alone; nothing where it has none.
func ownDataDir(node *yaml.Node) string {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == "data_dir" {
			return fmt.Sprintf("node: {data_dir: %s}\n", quoted(node.Content[i+1].Value))
		}
	}
	return ""
}

// Block is the block `cluster:` for a file, with the secret in a file.
func (c *Cluster) Block(secret string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster:\n  name: %s\n", quoted(c.Name))
	if c.Listen != "" {
		fmt.Fprintf(&b, "  listen: %s\n", quoted(string(c.Listen)))
	}
	if c.Advertise != "" {
		fmt.Fprintf(&b, "  advertise: %s\n", quoted(c.Advertise))
	}
	peers := make([]string, len(c.Peers))
	for i, p := range c.Peers {
		peers[i] = quoted(p)
	}
	fmt.Fprintf(&b, "  peers: [%s]\n  secret: %s\n", strings.Join(peers, ", "), quoted("file:"+secret))
	return []byte(b.String())
}

// quoted is a text as YAML has it between double quotes.
func quoted(s string) string { return strconv.Quote(s) }
