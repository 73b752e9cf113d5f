// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// UpdateAccount makes the running server take a new token of an account: what
// users may do changes at once, and revoked ones are cut off. system is the name
// of the system account, whose users alone may do this.
func (c *Client) UpdateAccount(ctx context.Context, system, token string) error {
	nc, err := c.conn(system)
	if err != nil {
		return fmt.Errorf("update account: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, "$SYS.REQ.CLAIMS.UPDATE", []byte(token))
	if err != nil {
		return fmt.Errorf("update account: %w", err)
	}
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return fmt.Errorf("update account: read the server's answer: %w", err)
	}
	if answer.Error != nil {
		return fmt.Errorf("update account: %w", errors.New(answer.Error.Description))
	}
	return nil
}
