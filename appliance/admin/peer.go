// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net"
)

type peerKey struct{}

// WithPeer is the ConnContext of the admin server: it remembers who is at the other
// end, which a client can't choose.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	name, ok := peerName(c)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, name)
}

func peerOf(ctx context.Context) string {
	name, ok := ctx.Value(peerKey{}).(string)
	if !ok {
		return "unknown"
	}
	return name
}
