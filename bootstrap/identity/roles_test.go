// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// shop makes an account without limits of these users.
func shop(users ...identity.User) identity.Account {
	a := account("shop")
	a.Users = users
	return a
}

func worker(name string, consumers ...identity.ConsumerRef) identity.User {
	return identity.User{Name: name, Role: identity.RoleWorker, Consumers: consumers}
}

func producer(name string, subjects ...string) identity.User {
	return identity.User{Name: name, Role: identity.RoleProducer, Subjects: subjects}
}

// publicUserKey makes an nkey that a user might bring.
func publicUserKey(t *testing.T) (public string, pair nkeys.KeyPair) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return public, pair
}

func TestEveryRoleIsExactlyItsSubjects(t *testing.T) {
	inbox := jwt.Permission{Allow: jwt.StringList{"_inbox.u.>"}}
	for name, tc := range map[string]struct {
		user identity.User
		want jwt.Permissions
	}{
		"admin": {identity.User{Role: identity.RoleAdmin}, jwt.Permissions{}},
		"producer": {producer("u", "orders.>", "bills.*", "orders.>"), jwt.Permissions{
			Pub: jwt.Permission{Allow: jwt.StringList{"bills.*", "orders.>"}}, Sub: inbox,
		}},
		"worker": {worker("u", identity.ConsumerRef{Stream: "S", Consumer: "C"}), jwt.Permissions{
			Pub: jwt.Permission{Allow: jwt.StringList{
				"$JS.ACK.*.*.S.C.>", "$JS.ACK.S.C.>", "$JS.API.CONSUMER.INFO.S.C", "$JS.API.CONSUMER.MSG.NEXT.S.C", "$JS.API.STREAM.INFO.S",
			}}, Sub: inbox,
		}},
		"worker of two on one stream": {worker("u", identity.ConsumerRef{Stream: "1", Consumer: "2"}, identity.ConsumerRef{Stream: "1", Consumer: "b"}), jwt.Permissions{
			Pub: jwt.Permission{Allow: jwt.StringList{
				"$JS.ACK.*.*.1.b.>", "$JS.ACK.1.2.>", "$JS.ACK.1.b.>", "$JS.API.CONSUMER.INFO.1.2", "$JS.API.CONSUMER.INFO.1.b",
				"$JS.API.CONSUMER.MSG.NEXT.1.2", "$JS.API.CONSUMER.MSG.NEXT.1.b", "$JS.API.STREAM.INFO.1",
			}}, Sub: inbox,
		}},
		"observer": {identity.User{Role: identity.RoleObserver}, jwt.Permissions{
			Pub: jwt.Permission{Allow: jwt.StringList{
				"$JS.API.CONSUMER.INFO.*.*", "$JS.API.CONSUMER.LIST.*", "$JS.API.CONSUMER.NAMES.*", "$JS.API.INFO",
				"$JS.API.STREAM.INFO.*", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES",
			}},
			Sub: jwt.Permission{Allow: jwt.StringList{
				"$JS.EVENT.ADVISORY.CONSUMER.>", "$JS.EVENT.ADVISORY.STREAM.>", "$JS.EVENT.METRIC.CONSUMER.>", "_inbox.u.>",
			}},
		}},
		"custom": {identity.User{Role: identity.RoleCustom, Publish: []string{"x.>"}, Subscribe: []string{"y.>"}}, jwt.Permissions{
			Pub: jwt.Permission{Allow: jwt.StringList{"x.>"}}, Sub: jwt.Permission{Allow: jwt.StringList{"_inbox.u.>", "y.>"}},
		}},
		"shared inbox": {identity.User{Role: identity.RoleCustom, Publish: []string{"x.>"}, SharedInbox: true}, jwt.Permissions{
			Pub: jwt.Permission{Allow: jwt.StringList{"x.>"}}, Sub: jwt.Permission{Allow: jwt.StringList{"_INBOX.>", "_inbox.u.>"}},
		}},
		"nothing to publish": {producer("u"), jwt.Permissions{Pub: jwt.Permission{Deny: jwt.StringList{">"}}, Sub: inbox}},
		"nothing to consume": {worker("u"), jwt.Permissions{Pub: jwt.Permission{Deny: jwt.StringList{">"}}, Sub: inbox}},
		"nothing listed": {identity.User{Role: identity.RoleCustom}, jwt.Permissions{
			Pub: jwt.Permission{Deny: jwt.StringList{">"}}, Sub: inbox,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := newFile(t)
			id := open(t, f)
			tc.user.Name = "u"
			apply(t, id, shop(tc.user))
			for _, scope := range claimsOf(t, id, "shop").SigningKeys {
				got := scope.(*jwt.UserScope)
				if diff := cmp.Diff(tc.want, got.Template.Permissions, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("permissions (-want +got):\n%s", diff)
				}
				if got.Role != string(tc.user.Role) || got.Description != "u" {
					t.Errorf("got role %q of %q, want %q of %q", got.Role, got.Description, tc.user.Role, "u")
				}
			}
		})
	}
}

func TestApplyRefusesAUserThatATokenMustNotHold(t *testing.T) {
	f, d := newFile(t)
	id := open(t, f)
	key, pair := publicUserKey(t)
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	admin := func(name, key string) identity.User {
		return identity.User{Name: name, Role: identity.RoleAdmin, PublicKey: key}
	}
	custom := func(publish, subscribe string) identity.User {
		return identity.User{Name: "u", Role: identity.RoleCustom, Publish: []string{publish}, Subscribe: []string{subscribe}}
	}
	for name, tc := range map[string]struct {
		users []identity.User
		text  string
	}{
		"no role":            {[]identity.User{{Name: "u"}}, `role "" is not known`},
		"role that is none":  {[]identity.User{{Name: "u", Role: "root"}}, `role "root" is not known`},
		"template as name":   {[]identity.User{admin("{{name()}}", "")}, "{{"},
		"template":           {[]identity.User{producer("u", "orders.{{tag(x)}}")}, "{{"},
		"stream of tokens":   {[]identity.User{worker("u", identity.ConsumerRef{Stream: "a.b", Consumer: "c"})}, "consumer a.b/c"},
		"any consumer":       {[]identity.User{worker("u", identity.ConsumerRef{Stream: "a", Consumer: "*"})}, "consumer a/*"},
		"no consumer":        {[]identity.User{worker("u", identity.ConsumerRef{Stream: "a"})}, "name is empty"},
		"empty subject":      {[]identity.User{producer("u", "")}, "a token of it is empty"},
		"empty token":        {[]identity.User{custom("a..b", "c")}, "a token of it is empty"},
		"queue":              {[]identity.User{custom("a", "b workers")}, "has a space"},
		"seed for a key":     {[]identity.User{admin("u", string(seed))}, "not the public key of a user"},
		"key of an account":  {[]identity.User{admin("u", newPublic(t, nkeys.CreateAccount))}, "not the public key of a user"},
		"one key, two users": {[]identity.User{admin("u", key), admin("v", key)}, `the one of user "u"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := id.Apply([]identity.Account{shop(tc.users...)})
			if err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("got %v, want text %q", err, tc.text)
			}
			wantNone(t, err.Error(), []string{string(seed)})
		})
	}
	if d.writes != 1 {
		t.Errorf("got %d writes, want 1", d.writes)
	}
}

func newPublic(t *testing.T, create func() (nkeys.KeyPair, error)) string {
	t.Helper()
	kp, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := kp.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}
