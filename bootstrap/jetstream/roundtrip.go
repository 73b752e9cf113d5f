// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// RoundTrip sends a message through the server to itself. It finds out whether the
// server serves, and nothing else: neither streams nor the disk nor other nodes have a
// part in it.
func (c *Client) RoundTrip(ctx context.Context, account string) error {
	nc, err := c.conn(account)
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	sub, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // a closed connection has no subscriptions
	if err := nc.Publish(sub.Subject, nil); err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	if _, err := sub.NextMsgWithContext(ctx); err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	return nil
}
