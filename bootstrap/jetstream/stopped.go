// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"fmt"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	// noStorage is the server's error code when a stream would take more than there is,
	// and for all file streams of accounts that may store nothing for a while.
	noStorage   = 10047
	stoppedText = "nothing is stored in files at the moment, and streams there are neither made nor changed: "
	stoppedHint = "make room on the volume, or mend the disk (`holdfast status` says which); then run `holdfast apply` again, unless it is done by itself"
)

func (o Order) stopped() string {
	if o.Stopped == nil {
		return ""
	}
	return o.Stopped()
}

// fault is an error of a request with what can be done about it. While nothing is stored
// the server's reason is not the one to look for.
func (o Order) fault(c diag.Code, what string, err error) error {
	if code(err) == noStorage {
		if why := o.stopped(); why != "" {
			return diag.Fail(c, fmt.Errorf("%s: %s%s: %w", what, stoppedText, why, err), stoppedHint)
		}
	}
	return diag.Fail(c, fmt.Errorf("%s: %w", what, err), createHint(err))
}
