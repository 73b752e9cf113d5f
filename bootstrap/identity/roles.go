// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"slices"

	"github.com/nats-io/jwt/v2"
)

// Role says what a user may do in its account. The account is the boundary that
// keeps people apart; a role guards against accidents. (Whoever may ask the
// server something may name a reply subject, and the server answers to any
// subject of the account.)
type Role string

// The roles.
const (
	RoleAdmin    Role = "admin"    // everything in its account
	RoleProducer Role = "producer" // publish on Subjects
	RoleWorker   Role = "worker"   // pull from and acknowledge on Consumers
	RoleObserver Role = "observer" // look at streams and consumers, not at messages
	RoleCustom   Role = "custom"   // what Publish and Subscribe list
)

// ConsumerRef names a consumer of a stream.
type ConsumerRef struct {
	Stream   string
	Consumer string
}

// InboxPrefix is where a user receives its replies: the inbox prefix that its
// client must set. It is outside of _INBOX., the prefix that clients have by
// themselves, because whoever may subscribe to that reads what others pull.
func InboxPrefix(user string) string { return "_inbox." + user }

// permissions are what the server is told that the user may do.
func permissions(u User) (jwt.Permissions, error) {
	var publish []string
	subscribe := []string{InboxPrefix(u.Name) + ".>"}
	if u.SharedInbox {
		subscribe = append(subscribe, "_INBOX.>")
	}
	switch u.Role {
	case RoleAdmin:
		// No permissions at all: the server then skips the check that ">" would
		// cost on every message.
		return jwt.Permissions{}, nil
	case RoleProducer:
		publish = u.Subjects
	case RoleWorker:
		for _, c := range u.Consumers {
			publish = append(publish, c.subjects()...)
		}
	case RoleObserver:
		publish = observed()
		subscribe = append(subscribe, noticed()...)
	case RoleCustom:
		publish = u.Publish
		subscribe = append(subscribe, u.Subscribe...)
	default:
		return jwt.Permissions{}, fmt.Errorf("role %q is not known", u.Role)
	}
	return jwt.Permissions{Pub: only(publish), Sub: only(subscribe)}, nil
}

// subjects are what it takes to work on a consumer that exists. Creating one is
// not among them, under whatever name: a consumer's creator chooses what it reads.
func (r ConsumerRef) subjects() []string {
	of := r.Stream + "." + r.Consumer
	subjects := []string{
		"$JS.API.STREAM.INFO." + r.Stream,
		"$JS.API.CONSUMER.INFO." + of,
		"$JS.API.CONSUMER.MSG.NEXT." + of,
		"$JS.ACK." + of + ".>",
	}
	// The server's second form of an acknowledgement has domain and account in
	// front. In the first form a delivery count and a sequence stand in the same
	// places, so names made of digits would fit the messages of other consumers.
	if !digits(r.Stream) || !digits(r.Consumer) {
		subjects = append(subjects, "$JS.ACK.*.*."+of+".>")
	}
	return subjects
}

func digits(name string) bool {
	return !slices.ContainsFunc([]rune(name), func(r rune) bool { return r < '0' || r > '9' })
}

// observed is what an observer may ask.
func observed() []string {
	return []string{
		"$JS.API.INFO",
		"$JS.API.STREAM.NAMES",
		"$JS.API.STREAM.LIST",
		"$JS.API.STREAM.INFO.*",
		"$JS.API.CONSUMER.NAMES.*",
		"$JS.API.CONSUMER.LIST.*",
		"$JS.API.CONSUMER.INFO.*.*",
	}
}

// noticed is what an observer hears of without asking: what happens to streams
// and consumers. It does not hear $JS.EVENT.ADVISORY.API, which repeats every
// request with its answer, and so the messages that somebody else reads with
// STREAM.MSG.GET.
func noticed() []string {
	return []string{
		"$JS.EVENT.ADVISORY.STREAM.>",
		"$JS.EVENT.ADVISORY.CONSUMER.>",
		"$JS.EVENT.METRIC.CONSUMER.>",
	}
}

// only allows these subjects and nothing else. An empty list must say so: to the
// server it would mean that everything is allowed.
func only(subjects []string) jwt.Permission {
	if len(subjects) == 0 {
		return jwt.Permission{Deny: jwt.StringList{">"}}
	}
	allow := slices.Clone(subjects)
	slices.Sort(allow)
	return jwt.Permission{Allow: slices.Compact(allow)}
}
