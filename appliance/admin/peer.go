// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net"
	"os/user"
	"strconv"
)

type peerKey struct{}

// WithPeer is the ConnContext of the admin server: it remembers who is at the other
// end, which a client can't choose.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	uid, ok := peerUID(c)
	if !ok {
		return ctx
	}
	name := "uid " + strconv.Itoa(uid)
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name = u.Username
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
