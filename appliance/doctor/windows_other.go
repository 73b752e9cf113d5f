// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package doctor

import (
	"context"
	"regexp"
	"strings"
)

// prefix is what makes a command one of root's.
const prefix = "sudo "

var plainWord = regexp.MustCompile(`^[\w/.@:+,%=-]+$`)

// quote makes a word safe to paste into a shell.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func lookAtAntivirus(context.Context, *machine) report { return skip("on Windows only") }
func lookAtPower(context.Context, *machine) report     { return skip("on Windows only") }
