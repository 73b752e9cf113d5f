// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/engine"
)

// VerifyStopped reads what is stored in the data directory of a node that does not run.
// It changes nothing.
func VerifyStopped(ctx context.Context, dir string, r admin.VerifyRequest, progress func(admin.VerifyProgress)) (out admin.Verified, err error) {
	err = stopped(dir, r.Streams, func(store string, names engine.Names) error {
		v, err := engine.VerifyStore(ctx, store, names, engine.VerifyOptions{
			Streams: r.Streams, Rate: r.Rate, Progress: func(p engine.VerifyProgress) { progress(admin.VerifyProgress(p)) },
		})
		out = verified(v)
		return err
	})
	return out, err
}

// MendStopped mends streams of a node that does not run.
func MendStopped(dir string, r admin.MendRequest) (out admin.MendAnswer, err error) {
	err = stopped(dir, r.Streams, func(store string, names engine.Names) error {
		found, err := engine.MendStore(store, names, r.Streams)
		out.Damage = damages(found)
		return err
	})
	return out, err
}

// stopped runs f with the data directory locked.
func stopped(dir string, streams []string, f func(store string, names engine.Names) error) (err error) {
	release, err := datadir.Hold(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	store, resolver := datadir.Store(dir)
	names := engine.StoredNames(resolver)
	stored := engine.StoredStreams(store, names)
	for _, s := range streams {
		if !slices.Contains(stored, s) {
			return noSuchStream(s)
		}
	}
	return f(store, names)
}
