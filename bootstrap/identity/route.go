// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
)

// reserved begins the subjects that Holdfast uses inside an account. Permissions for
// them come from mappings, and from nowhere else.
const reserved = "_hf."

// Mapping leads what is published on From to To. To may use {{wildcard(1)}} and end
// with ">" as From does.
type Mapping struct{ From, To string }

// Route gives accounts their mappings; an account that is not in routes has none. The
// server checks a user's permissions on the subject that a message is led to, so each
// user gets what it takes to publish there what it may publish anyway. It returns
// whether there was something to change, when all of it is on disk.
func (id *Identity) Route(routes map[string][]Mapping) (bool, error) {
	var routed bool
	err := id.change(func(next *state, now time.Time) (bool, error) {
		var err error
		routed, err = next.route(routes, now)
		return routed, err
	})
	return routed, err
}

// Routes returns the mappings of each account that has some, in no order.
func (id *Identity) Routes() (map[string][]Mapping, error) {
	out := make(map[string][]Mapping)
	for _, a := range id.current.Load().accounts {
		claims, err := jwt.DecodeAccountClaims(a.token)
		if err != nil {
			return nil, fmt.Errorf("read the routes of account %q: decode token: %w", a.name, err)
		}
		for from, to := range claims.Mappings {
			for _, t := range to {
				out[a.name] = append(out[a.name], Mapping{string(from), string(t.Subject)})
			}
		}
	}
	return out, nil
}

// RouteSecret returns a word that only Holdfast knows, for subjects of its own in an
// account. It stays the same for as long as the account's key does.
func (id *Identity) RouteSecret(account string) (string, error) {
	a := id.current.Load().find(account)
	if a == nil {
		return "", unknown("account", account, id.Accounts())
	}
	mac := hmac.New(sha256.New, []byte(a.seed.Reveal()))
	mac.Write([]byte("holdfast route"))
	return hex.EncodeToString(mac.Sum(nil))[:24], nil
}

func (s *state) route(routes map[string][]Mapping, now time.Time) (bool, error) {
	var changed bool
	for i := range s.accounts {
		a := &s.accounts[i]
		claims, err := jwt.DecodeAccountClaims(a.token)
		if err != nil {
			return false, fmt.Errorf("route account %q: decode token: %w", a.name, err)
		}
		want := jwt.Mapping{}
		for _, m := range routes[a.name] {
			want[jwt.Subject(m.From)] = []jwt.WeightedMapping{{Subject: jwt.Subject(m.To), Weight: 100}}
		}
		if maps.EqualFunc(claims.Mappings, want, slices.Equal) {
			continue
		}
		changed = true
		claims.Mappings = want
		for _, scope := range claims.SigningKeys {
			if u, ok := scope.(*jwt.UserScope); ok {
				allow := &u.Template.Permissions.Pub.Allow
				*allow = led(slices.DeleteFunc(slices.Clone(*allow), isReserved), want)
			}
		}
		if err := s.sign(a, claims, now); err != nil {
			return false, fmt.Errorf("route account %q: %w", a.name, err)
		}
	}
	return changed, nil
}

func isReserved(subject string) bool { return strings.HasPrefix(subject, reserved) }

// led returns what a user may publish, and where mappings lead it.
func led(allow jwt.StringList, mappings jwt.Mapping) jwt.StringList {
	if slices.Contains(allow, ">") {
		return allow
	}
	out := slices.Clone(allow)
	for from, to := range mappings {
		// The way back to the streams is no place to have permissions for.
		if len(to) != 1 || !isReserved(string(to[0].Subject)) {
			continue
		}
		for _, a := range allow {
			if both, ok := Intersect(a, string(from)); ok {
				out = append(out, image(both, string(from), string(to[0].Subject)))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Intersect returns the subject, wildcards included, that matches what both match;
// false when they have nothing in common.
func Intersect(a, b string) (string, bool) {
	at, bt := strings.Split(a, "."), strings.Split(b, ".")
	var out []string
	for i := 0; ; i++ {
		switch {
		case i == len(at) && i == len(bt):
			return strings.Join(out, "."), true
		case i == len(at) || i == len(bt):
			return "", false
		case at[i] == ">":
			return strings.Join(append(out, bt[i:]...), "."), true
		case bt[i] == ">":
			return strings.Join(append(out, at[i:]...), "."), true
		case at[i] == bt[i] || bt[i] == "*":
			out = append(out, at[i])
		case at[i] == "*":
			out = append(out, bt[i])
		default:
			return "", false
		}
	}
}

// image is where a mapping leads a pattern that is within its From.
func image(pattern, from, to string) string {
	tokens := strings.Split(pattern, ".")
	n := 0
	for i, t := range strings.Split(from, ".") {
		switch t {
		case "*":
			n++
			to = strings.Replace(to, "{{wildcard("+strconv.Itoa(n)+")}}", tokens[i], 1)
		case ">":
			to = strings.TrimSuffix(to, ">") + strings.Join(tokens[i:], ".")
		}
	}
	return to
}
