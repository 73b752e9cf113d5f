// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// packageRelease counts packages of one version. There is one.
const packageRelease = "1"

// distVersions returns the version as deb and rpm have it. Both sort ~ before
// the end, so that a pre-release is older than its release; with - it were newer.
func distVersions(version string) (deb, rpm string, err error) {
	m := regexp.MustCompile(`^(\d+\.\d+\.\d+)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?$`).FindStringSubmatch(version)
	if m == nil {
		return "", "", fmt.Errorf("unknown version %q: want MAJOR.MINOR.PATCH, MAJOR.MINOR.PATCH-PRERELEASE or either with +BUILD", version)
	}
	deb = m[1]
	if m[2] != "" {
		deb += "~" + m[2]
	}
	if m[3] != "" {
		deb += "+" + m[3]
	}
	// In rpm - ends the version.
	return deb, strings.ReplaceAll(deb, "-", "_"), nil
}
