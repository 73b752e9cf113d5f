// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// maxName is the longest name nats-server takes for a stream or consumer, in
// bytes (JSMaxNameLen).
const maxName = 255

// reserved are accounts that every node has: nats-server's system account and
// Holdfast's own. Users can't declare them.
var reserved = map[string]bool{"SYS": true, "$SYS": true, "$G": true, "HOLDFAST": true}

// template starts what the server would replace in a permission, where names and
// subjects are meant as they are written.
const template = "{{"

// checkName says what is wrong with the name of an account, user, stream or
// consumer, and how to fix it; what is empty when nothing is. All of them are one
// subject token, for they become part of subjects and of file names.
func checkName(kind, name string) (what, fix string) {
	switch {
	case name == "":
		return "the " + kind + " has no name", "write a name before the colon"
	case len(name) > maxName:
		return fmt.Sprintf("the name is longer than %d bytes", maxName), "choose a shorter name"
	case strings.ContainsAny(name, ".*>/\\") || strings.ContainsFunc(name, forbiddenRune):
		fix = "use letters, digits, - and _"
		if better := suggestName(name); better != "" {
			fix = fmt.Sprintf("use letters, digits, - and _, such as %q", better)
		}
		return fmt.Sprintf("the name of %s %s can't contain white space or any of . * > / \\", article(kind), kind), fix
	case strings.Contains(name, template):
		return fmt.Sprintf("the name of %s %s can't contain {{", article(kind), kind), fmt.Sprintf("use letters, digits, - and _, such as %q", strings.Trim(strings.NewReplacer("{", "", "}", "").Replace(name), "_"))
	case kind == "account" && reserved[name]:
		return fmt.Sprintf("account %q is reserved", name), "choose another name"
	}
	return "", ""
}

func forbiddenRune(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func suggestName(name string) string {
	better := strings.Map(func(r rune) rune {
		if strings.ContainsRune("./\\", r) || unicode.IsSpace(r) {
			return '_'
		}
		if r == '*' || r == '>' || unicode.IsControl(r) {
			return -1
		}
		return r
	}, name)
	return strings.Trim(better, "_")
}

func article(kind string) string {
	if kind == "account" {
		return "an"
	}
	return "a"
}

// otherWords are names that other systems, clients and tools use for a key.
func otherWords() map[string]string {
	return map[string]string{
		"acks": "ack_policy", "bytes": "max_bytes", "copies": "num_replicas", "data": "data_dir", "dedupe_window": "duplicate_window",
		"duplicates": "duplicate_window", "filter": "filter_subject", "filters": "filter_subjects", "max_attempts": "max_deliver",
		"max_bytes_per_message": "max_msg_size", "max_in_flight": "max_ack_pending", "max_length": "max_msgs", "max_messages": "max_msgs",
		"max_message_size": "max_msg_size", "max_retries": "max_deliver", "queue_group": "deliver_group", "replicas": "num_replicas",
		"retries": "max_deliver", "size": "max_bytes", "store_dir": "data_dir", "sync": "durability", "token": "http_token",
		"topics": "subjects", "ttl": "max_age", "visibility_timeout": "ack_wait",
	}
}

// isNameKey reports whether a key tries to name what its own key names already.
func isNameKey(name string) bool {
	return name == "name" || name == "durable" || name == "durable_name"
}

// nearest returns the candidate that name was most likely meant to be: another
// system's word for it, one few edits away, or one of which name is a part.
func nearest(name string, candidates []string) (string, bool) {
	name = strings.ToLower(name)
	if s := otherWords()[name]; slices.Contains(candidates, s) {
		return s, true
	}
	best, found := min(3, max(1, len(name)/4))+1, ""
	for _, c := range candidates {
		if d := distance(name, strings.ToLower(c)); d < best && d < min(len(c), len(name)) {
			best, found = d, c
		}
	}
	const shortest = 5 // of a part: shorter ones fit too many keys
	if found != "" || len(name) < shortest {
		return found, found != ""
	}
	best = 2
	for _, c := range candidates {
		parts := strings.Split(strings.ToLower(c), "_")
		for i := 1; i < len(parts); i++ {
			for _, part := range []string{strings.Join(parts[:i], "_"), strings.Join(parts[i:], "_")} {
				if d := distance(name, part); len(part) >= shortest && d < best {
					best, found = d, c
				}
			}
		}
	}
	return found, found != ""
}

// distance counts insertions, deletions, replacements and swaps of neighbours
// that turn a into b (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
