// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// othersLimit bounds how long the other nodes of a cluster are waited for when an
	// account's token changes: one that hears nothing gets it when the servers compare
	// theirs.
	othersLimit = 2 * time.Second
	// sendAgain is when the token is sent again to a node that did not answer: it may have
	// been connected too recently to be sent anything.
	sendAgain = 250 * time.Millisecond
)

// UpdateAccount makes the running servers take a new token of an account: what
// users may do changes at once, and revoked ones are cut off. system is the name
// of the system account, whose users alone may do this.
//
// others are the names of the other nodes that are connected, and silent is which of them
// did not answer for two seconds. They are waited for because a node that is to keep a
// stream refuses it, for the whole cluster, while it does not know the account.
func (c *Client) UpdateAccount(ctx context.Context, system, token string, others []string) (silent []string, err error) {
	fail := func(err error) ([]string, error) { return nil, fmt.Errorf("update account: %w", err) }
	nc, err := c.conn(system)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answers, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return fail(err)
	}
	defer func() { _ = answers.Unsubscribe() }()

	begun, self := time.Now(), nc.ConnectedServerName()
	waiting := append(slices.Clone(others), self)
	for slices.Contains(waiting, self) || len(waiting) > 0 && time.Since(begun) < othersLimit {
		if err := nc.PublishRequest("$SYS.REQ.CLAIMS.UPDATE", answers.Subject, []byte(token)); err != nil {
			return fail(err)
		}
		round, end := context.WithTimeout(ctx, sendAgain)
		for len(waiting) > 0 {
			node, refused, err := nextUpdated(round, answers)
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				break
			}
			if err == nil && node == self {
				err = refused // what another one refuses, that one tells
			}
			if err != nil {
				end()
				return fail(err)
			}
			waiting = slices.DeleteFunc(waiting, func(other string) bool { return other == node })
		}
		end()
	}
	return waiting, nil
}

// nextUpdated returns the name of the next node that answered, and why it refused.
func nextUpdated(ctx context.Context, answers *nats.Subscription) (node string, refused, err error) {
	msg, err := answers.NextMsgWithContext(ctx)
	if err != nil {
		return "", nil, err
	}
	if msg.Header.Get("Status") == "503" {
		return "", nil, nats.ErrNoResponders
	}
	var answer struct {
		Server struct {
			Name string `json:"name"`
		} `json:"server"`
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return "", nil, fmt.Errorf("read the server's answer: %w", err)
	}
	if answer.Error != nil {
		refused = errors.New(answer.Error.Description)
	}
	return answer.Server.Name, refused, nil
}
