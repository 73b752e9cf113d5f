// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"maps"
	"slices"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// storedSubjects are the subjects that a user may publish to and that streams
// of the file store.
func storedSubjects(acc config.Account, u config.User) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(acc.Streams)) {
		for _, s := range texts(acc.Streams[name].Captured(name)) {
			switch u.RoleName() {
			case "admin":
				out = append(out, s)
			case "producer":
				if slices.Contains(u.Streams, name) {
					out = append(out, s)
				}
			case "":
				for _, p := range u.Permissions.Publish {
					if both, ok := identity.Intersect(string(p), s); ok {
						out = append(out, both)
					}
				}
			}
		}
	}
	return out
}
