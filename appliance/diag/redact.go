// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"regexp"
	"strings"
)

const redacted = "[redacted]"

// secretKey finds a key that sounds like a secret, whether or not Holdfast
// knows it: a source line in an error must not give away a token that stands
// where it should not.
var secretKey = regexp.MustCompile(`(?i)["']?[\w.-]*(?:token|secret|passw|passphrase|pwd|bearer|seed|credential|api_?key|(?:[_-]|\b)keys?\b)[\w.-]*["']?\s*[:=]\s*`)

// reference is a value that only says where a secret is: shown.
var reference = regexp.MustCompile(`^(?:"file:[^"]*"|'file:[^']*'|file:[^\s,}\]"']*)`)

// secretText finds values that are secrets under any key: seeds of NATS keys,
// JWTs, passwords in URLs.
var secretText = regexp.MustCompile(`\bS[OAUNCX][A-Z2-7]{50,}\b|\beyJ[\w-]+\.[\w.-]+|://[^/@\s"']+@`)

// redact replaces what follows a key that sounds like a secret, to the end of
// the line: where the value ends can't be told from one line.
func redact(line string) string {
	var out strings.Builder
	rest := line
	for {
		m := secretKey.FindStringIndex(rest)
		if m == nil {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:m[1]])
		rest = rest[m[1]:]
		switch ref := reference.FindString(rest); {
		case ref != "":
			out.WriteString(ref)
			rest = rest[len(ref):]
		case rest == "" || strings.ContainsRune("{#|>", rune(rest[0])):
			// Keys follow, or the value is on another line.
		default:
			out.WriteString(redacted)
			rest = ""
		}
	}
	return secretText.ReplaceAllStringFunc(out.String(), func(s string) string {
		if strings.HasPrefix(s, "://") {
			return "://" + redacted + "@"
		}
		return redacted
	})
}

var keyAtStart = regexp.MustCompile(`^["']?[\w.-]+["']?\s*[:=]\s*`)

// hideFrom hides what stands from a column on; a key that starts there is shown.
func hideFrom(line string, col int) string {
	if col < 1 || col > len(line) {
		return redacted
	}
	return line[:col-1] + keyAtStart.FindString(line[col-1:]) + redacted
}
