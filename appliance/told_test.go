// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

// TestAnEditThatFailsAgainIsToldAgain: while it is tried it is told once, but one that was
// taken back and comes again is another edit.
func TestAnEditThatFailsAgainIsToldAgain(t *testing.T) {
	log := &logged{}
	a := &Appliance{told: map[string]string{}, log: slog.New(log)}
	fails := bootstrap.Report{Results: []bootstrap.Result{{
		Action:  bootstrap.Action{Op: bootstrap.Create, Kind: bootstrap.KindStream, Account: "shop", Stream: "NEW"},
		Outcome: bootstrap.Failed, Err: errors.New("subjects overlap"),
	}}}
	for i, step := range []struct {
		report bootstrap.Report
		want   int
	}{{fails, 1}, {fails, 1}, {bootstrap.Report{}, 1}, {fails, 2}} {
		a.tellApplied(step.report, false)
		if n := log.count("not done"); n != step.want {
			t.Errorf("step %d: got it told %d times, want %d", i, n, step.want)
		}
	}
}
