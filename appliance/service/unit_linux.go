// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/systemd"
)

// Where things are on Linux; the packages use the same.
const (
	name     = "holdfast"
	unitName = name + ".service"

	ownUnit        = "/etc/systemd/system/" + unitName
	oldUnit        = ownUnit + ".old"
	bootLink       = "/etc/systemd/system/multi-user.target.wants/" + unitName
	configDir      = "/etc/holdfast"
	overlays       = configDir + "/holdfast.d"
	packagedConfig = configDir + "/holdfast.yaml"

	packagedBinary = "/usr/bin/holdfast"
	dataDir        = "/var/lib/holdfast"
)

// packagedUnits is where packages put units: the second is the first on systems that
// have merged /lib into /usr.
func packagedUnits() []string {
	return []string{"/usr/lib/systemd/system/" + unitName, "/lib/systemd/system/" + unitName}
}

// unitText is the unit for a program and its configuration: the one text that is
// shipped, but for the two paths.
func unitText(binary, config string) string {
	return strings.Replace(systemd.Unit,
		"ExecStart="+packagedBinary+" run --config "+packagedConfig+" ",
		"ExecStart="+binary+" run --config "+config+" ", 1)
}

// isOurs reports whether a unit was made by Holdfast, of this or another version.
func isOurs(text string) bool {
	return regexp.MustCompile(`(?m)^Documentation=.*github\.com/holdfast-mq/holdfast`).MatchString(text) &&
		regexp.MustCompile(`(?m)^ExecStart=\S+ run --config `).MatchString(text)
}

// unitConfig is the configuration that a unit of ours names.
func unitConfig(text string) string {
	if m := regexp.MustCompile(`(?m)^ExecStart=\S+ run --config (\S+)`).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// checkPath refuses what the service could not reach (the unit has ProtectHome= and
// PrivateTmp=), or what would mean something else in a unit.
func checkPath(what, path, instead string) error {
	if !regexp.MustCompile(`^/[A-Za-z0-9/._+@-]+$`).MatchString(path) {
		return diag.Fail(diag.CodePlace, fmt.Errorf("%s %q: a unit can't name this path", what, path),
			"use a path of letters, digits and . _ + @ -; "+instead)
	}
	hidden := []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp"}
	if i := slices.IndexFunc(hidden, func(dir string) bool { return strings.HasPrefix(path, dir+"/") }); i >= 0 {
		return diag.Fail(diag.CodePlace, fmt.Errorf("%s %s: the service can't see what is in %s", what, path, hidden[i]), instead)
	}
	return nil
}
