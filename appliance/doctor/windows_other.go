// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package doctor

import (
	"context"
)

func lookAtAntivirus(context.Context, *machine) report { return skip("on Windows only") }
func lookAtPower(context.Context, *machine) report     { return skip("on Windows only") }
