// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// storedSubjects are the subjects that a user may publish to and that streams
// of the file store.
func storedSubjects(acc config.Account, u config.User) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(acc.Streams)) {
		for _, s := range capturedBy(acc, name) {
			switch u.RoleName() {
			case "admin":
				out = append(out, s)
			case "producer":
				if slices.Contains(u.Streams, name) {
					out = append(out, s)
				}
			case "":
				for _, p := range u.Permissions.Publish {
					if both, ok := meet(string(p), s); ok {
						out = append(out, both)
					}
				}
			}
		}
	}
	return out
}

// meet returns the subject, wildcards included, that matches what both match;
// false when they have nothing in common.
func meet(a, b string) (string, bool) {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	var both []string
	for i := 0; ; i++ {
		switch {
		case i == len(x) && i == len(y):
			return strings.Join(both, "."), true
		case i == len(x) || i == len(y):
			return "", false
		case x[i] == ">":
			return strings.Join(append(both, y[i:]...), "."), true
		case y[i] == ">":
			return strings.Join(append(both, x[i:]...), "."), true
		case x[i] == "*":
			both = append(both, y[i])
		case y[i] == "*" || x[i] == y[i]:
			both = append(both, x[i])
		default:
			return "", false
		}
	}
}
