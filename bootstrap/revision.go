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
	// Partial is true when some of what it asks for was held back or failed. What of it
	// is done later still belongs to it.
	Partial bool `json:"partial,omitempty"`
	// Unchanged is true when all that it asked for was held back, was refused, or was
	// there already: going back from it undoes nothing.
	Unchanged bool `json:"unchanged,omitempty"`
	// Summary says in words what was done.
	Summary string `json:"summary,omitempty"`
	// End is where the record of its end stands, 0 while there is none.
	End uint64 `json:"-"`
}

// Whole is true of a revision of which nothing is left to be done.
func (r Revision) Whole() bool { return r.Done && !r.Partial }

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
// it would undo. What changed nothing does not count. What was carried out in part, or
// only begun, of which nobody knows how far it came, counts on both sides; but not as
// newer than a configuration of which the plan undoes nothing. Going back on purpose
// makes a new revision with the old digest, which is then the latest.
func (h History) Stale(digest string, undoes bool) (old, latest Revision, stale bool) {
	last := h.before(digest, func(r Revision) bool { return r.Unchanged || !undoes && !r.Whole() })
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

// before is the place of the latest revision behind those of other configurations that
// are to be left out; -1 for none.
func (h History) before(digest string, leaveOut func(Revision) bool) int {
	last := len(h) - 1
	for last >= 0 && h[last].Digest != digest && leaveOut(h[last]) {
		last--
	}
	return last
}

// Standing returns the revision of a configuration that is in force already: what came
// after it, if anything did, changed nothing. open is true when what is done for it now
// belongs to that revision: it is the latest, and something of it is left. Where it is
// not the latest, and something of it is left, a new one is to be begun, for what came
// in between would count as newer than what is done now: then there is none.
func (h History) Standing(digest string) (rev Revision, open, ok bool) {
	at := h.before(digest, func(r Revision) bool { return r.Unchanged })
	if at < 0 || h[at].Digest != digest {
		return Revision{}, false, false
	}
	latest, left := at == len(h)-1, !h[at].Whole()
	return h[at], left && latest, latest || !left
}

// Ended is a revision after a try to carry it out, and whether that is news. h is the
// history of before the try. fresh is true when nothing of it can have been done
// before; declared are its Topology.Objects.
func (h History) Ended(rev Revision, fresh bool, r Report, declared map[string]string) (end Revision, news bool) {
	end = rev
	end.Done, end.Partial = true, !r.Whole()
	end.Objects = r.Settled(declared, h.Applied())
	// What comes back by itself over an edit that was not carried out is no newer than
	// that: it only makes what it lacked, which nobody undoes.
	returns := !rev.Confirmed && !rev.Rollback && slices.ContainsFunc(h, func(x Revision) bool { return x.Digest == rev.Digest && x.Whole() })
	end.Unchanged = (r.Unchanged() || returns && !r.Alters()) && (fresh || rev.Unchanged)
	if end.Unchanged {
		// What it does not declare is as declared before, too.
		for path, was := range h.Applied() {
			if _, ok := declared[path]; !ok {
				end.Objects[path] = was
			}
		}
	}
	switch {
	case !rev.Done:
		end.Summary = r.Summary()
	case r.Did():
		end.Summary += "; later: " + r.Summary()
	default:
		return end, end.Partial != rev.Partial || end.Unchanged != rev.Unchanged
	}
	return end, true
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
