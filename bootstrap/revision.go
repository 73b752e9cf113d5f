// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Revision is one configuration that was applied, as the node remembers it.
type Revision struct {
	// ID is its place in the history. It grows, with gaps.
	ID uint64 `json:"id"`
	// After is the ID of the latest revision when this one was planned, 0 when
	// there was none.
	After uint64    `json:"after,omitempty"`
	Time  time.Time `json:"time"`
	Node  string    `json:"node"`
	// By is "start", "reload", "file change", or who ran `holdfast apply`.
	By    string   `json:"by"`
	Files []string `json:"files,omitempty"`
	// Digest identifies what was applied, not its text: see the function Digest.
	Digest string `json:"digest"`
	// Objects is, of a revision that was begun, what it declares, and of one that
	// was finished, what the server then had as declared, in the form of
	// Topology.Objects. Only the latest revisions have it.
	Objects map[string]string `json:"objects,omitempty"`
	// Allow and Confirmed are the consents that it had.
	Allow     []string `json:"allow,omitempty"`
	Confirmed bool     `json:"confirmed,omitempty"`
	// Rollback is true when somebody went back to an older configuration on purpose.
	Rollback bool `json:"rollback,omitempty"`
	// Done is false when it was begun and not finished.
	Done bool `json:"done"`
	// Unchanged is true when all that it asked for was held back, or was there
	// already: going back from it undoes nothing.
	Unchanged bool `json:"unchanged,omitempty"`
	// Summary says in words what was done.
	Summary string `json:"summary,omitempty"`
}

// History is the revisions a node remembers, oldest first.
type History []Revision

// Latest returns the newest revision, finished or not.
func (h History) Latest() (Revision, bool) {
	if len(h) == 0 {
		return Revision{}, false
	}
	return h[len(h)-1], true
}

// Pending returns the latest revision when it was begun and not finished.
func (h History) Pending() (Revision, bool) {
	latest, ok := h.Latest()
	if !ok || latest.Done {
		return Revision{}, false
	}
	return latest, true
}

// Stale reports whether a configuration was applied before and another one
// since: applying it would undo the newer one. old is when it last was, latest what
// it would undo. What was only begun counts on both sides, for nobody knows how far
// it came; what changed nothing does not count. Going back on purpose makes a new
// revision with the old digest, which is then the latest.
func (h History) Stale(digest string) (old, latest Revision, stale bool) {
	last := len(h) - 1
	for last >= 0 && h[last].Unchanged && h[last].Digest != digest {
		last--
	}
	if last < 0 || h[last].Digest == digest {
		return Revision{}, Revision{}, false
	}
	latest = h[last]
	for i := last - 1; i >= 0; i-- {
		if h[i].Digest == digest {
			return h[i], latest, true
		}
	}
	return Revision{}, Revision{}, false
}

// Applied returns the objects that the server had as declared when a revision was
// last finished, for Diff. What a revision begun since declares otherwise is left
// out: a difference there may be what it left behind, and not somebody's work on
// the server.
func (h History) Applied() map[string]string {
	last := len(h) - 1
	for last >= 0 && !h[last].Done {
		last--
	}
	if last < 0 {
		return nil
	}
	applied := maps.Clone(h[last].Objects)
	for _, begun := range h[last+1:] {
		// Without objects its beginning was not recorded to the end, and nothing
		// was done before that.
		if begun.Objects == nil {
			continue
		}
		maps.DeleteFunc(applied, func(path, digest string) bool { return begun.Objects[path] != digest })
	}
	return applied
}

// Objects returns a digest of the declared fields of each stream and consumer, by
// its path as Action.Path writes it. Those of a stream don't count its consumers.
func (t Topology) Objects() map[string]string {
	objects := make(map[string]string)
	for _, a := range t.Accounts {
		for _, s := range a.Streams {
			path := a.Name + "/" + s.Name
			objects[path] = digest(merge(nil, s.Set))
			for _, c := range s.Consumers {
				objects[path+"/"+c.Name] = digest(merge(nil, c.Set))
			}
		}
	}
	return objects
}

// Digest identifies what a configuration asks for: the accounts, streams and
// consumers of t, and extra, which is what else is applied, such as users and
// limits, and has to go into JSON. Comments, the order of keys, positions and the
// names of files make no difference; the order of a list does.
func Digest(t Topology, extra any) string {
	accounts := make([]string, 0, len(t.Accounts))
	for _, a := range t.Accounts {
		accounts = append(accounts, a.Name) // those without streams are applied too
	}
	slices.Sort(accounts)
	more, err := json.Marshal(extra)
	if err != nil {
		// Without it two configurations would look the same.
		more = fmt.Appendf(nil, "%+v", extra)
	}
	return digest(map[string]any{"accounts": accounts, "objects": t.Objects(), "extra": string(more)})
}
