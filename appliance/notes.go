// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"time"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

// notesEvery is how often what the streams have is noted, for a start after damage.
const notesEvery = 5 * time.Minute

// tendNotes notes what the streams have, until ctx is done.
func (a *Appliance) tendNotes(ctx context.Context) {
	tick := time.NewTicker(notesEvery)
	defer tick.Stop()
	for {
		// A stream that is being made anew is not there for a moment.
		if a.applying.TryLock() {
			err := a.engine.Remember()
			a.applying.Unlock()
			if a.news("notes", err) {
				a.log.Warn("what the streams have is not noted: after damage less can be told, and brought back", keyErr, err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// forgetNotes forgets the streams that a plan deletes or makes anew: a crash in between
// is no damage.
func (a *Appliance) forgetNotes(plan bootstrap.Plan, consents bootstrap.Consents) {
	for _, act := range plan.Actions {
		if act.Op != bootstrap.Recreate || act.Kind != bootstrap.KindStream || !consents.Cover(act) {
			continue
		}
		key, ok := a.identity.PublicKey(act.Account)
		if !ok {
			continue
		}
		if err := a.engine.Forget(key, act.Stream); err != nil {
			a.log.Warn("the note of a stream stays while it is made anew", keyAccount, act.Account, keyStream, act.Stream, keyErr, err)
		}
	}
}
