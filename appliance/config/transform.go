// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// call is a transform function in a destination: {{wildcard(1)}}.
var call = regexp.MustCompile(`\{\{\s*(\w+)\s*\(([^)]*)\)\s*\}\}`)

// renaming checks a source and the subject it becomes, as nats-server's
// NewSubjectTransform does.
func (o object) renaming(from string, source *Subject, dest *string) {
	o.errors(o.missing("dest"))
	if dest == nil || o.isSet(from) && source == nil {
		return
	}
	if what, fix := wrongDestination(or(source, ">"), *dest); what != "" {
		o.errors(rule{true, diag.CodeValue, "dest", what, fix})
	}
}

func wrongDestination(source Subject, dest string) (what, fix string) {
	if dest == "" {
		return "the destination is empty", "write the new subject"
	}
	// A function's arguments may hold commas and blanks; they are no part of the subject's form.
	form := Subject(call.ReplaceAllString(dest, "x"))
	if err := checkSubject(string(form)); err != nil {
		return err.Error(), diag.Hint(err)
	}
	tokens := strings.Split(string(form), ".")
	if slices.Contains(tokens, "*") {
		return "* can't stand in a destination", "write {{wildcard(1)}} for what the first * of the source stood for"
	}
	if (tokens[len(tokens)-1] == ">") != strings.HasSuffix("."+string(source), ".>") {
		return "source and destination have to end in > both, or neither of them", "add > to the other one, or remove it"
	}
	wildcards := 0
	for token := range strings.SplitSeq(string(source), ".") {
		if token == "*" {
			wildcards++
		}
	}
	for _, m := range call.FindAllStringSubmatch(dest, -1) {
		if strings.EqualFold(m[1], "partition") && literal(source) {
			continue // the server then takes the whole subject
		}
		if what, fix := wrongCall(m[1], m[2], wildcards); what != "" {
			return what, fix
		}
	}
	for _, t := range tokens {
		if n, err := strconv.Atoi(strings.TrimPrefix(t, "$")); err == nil && strings.HasPrefix(t, "$") && n > wildcards {
			return fmt.Sprintf("%s: the source has %d *", t, wildcards), "count the * of the source"
		}
	}
	return "", ""
}

// wrongCall checks a function: its name, and that each * it names exists.
func wrongCall(name, arguments string, wildcards int) (what, fix string) {
	known := []string{"wildcard", "partition", "splitfromleft", "splitfromright", "slicefromleft", "slicefromright", "split", "left", "right", "random"}
	name = strings.ToLower(name)
	if !slices.Contains(known, name) {
		return fmt.Sprintf("%q is not a transform function", name), "use one of " + strings.Join(known, ", ")
	}
	args := strings.Split(arguments, ",")
	switch name {
	case "random":
		return "", ""
	case "partition":
		args = args[1:] // the first is the number of partitions
	default:
		args = args[:1]
	}
	for _, a := range args {
		if n, err := strconv.Atoi(strings.TrimSpace(a)); err != nil || n > wildcards {
			return fmt.Sprintf("%s(%s): the source has %d *", name, arguments, wildcards), "name a * of the source by its number, from 1"
		}
	}
	return "", ""
}
