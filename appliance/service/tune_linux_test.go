// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/systemd"
)

func TestTuneAtBootIsPlanned(t *testing.T) {
	const local = "/usr/local/bin/holdfast"
	written := strings.Replace(systemd.Tune, packagedBinary, local, 1)
	enable, reload := "command systemctl enable "+tuneName, "command systemctl daemon-reload"
	const file = "file " + tuneUnit + " -rw-r--r--"
	for name, c := range map[string]struct {
		t    tuning
		on   bool
		want []string
		code diag.Code
	}{
		"the package's":              {t: tuning{running: true, systemctl: true, packaged: true}, on: true, want: []string{enable}},
		"again":                      {t: tuning{running: true, systemctl: true, packaged: true, boot: true}, on: true, want: []string{}},
		"a tarball's":                {t: tuning{running: true, systemctl: true}, on: true, want: []string{file, reload, enable}},
		"a tarball's again":          {t: tuning{running: true, systemctl: true, own: true, boot: true, text: written}, on: true, want: []string{}},
		"an image":                   {t: tuning{}, on: true, want: []string{file, "link " + tuneLink}},
		"somebody's unit":            {t: tuning{own: true, text: "[Unit]\n"}, on: true, want: []string{}, code: diag.CodeForeignUnit},
		"off, the package's":         {t: tuning{running: true, systemctl: true, packaged: true, boot: true}, want: []string{"command systemctl disable " + tuneName}},
		"off, a tarball's":           {t: tuning{running: true, systemctl: true, own: true, boot: true, text: written}, want: []string{"command systemctl disable " + tuneName, "remove " + tuneUnit, reload}},
		"off, an image":              {t: tuning{own: true, boot: true, text: written}, want: []string{"remove " + tuneLink, "remove " + tuneUnit}},
		"off, and it never was":      {t: tuning{running: true, systemctl: true, packaged: true}, want: []string{}},
		"off, somebody's unit stays": {t: tuning{own: true, boot: true, text: "[Unit]\n"}, want: []string{}, code: diag.CodeForeignUnit},
	} {
		steps, err := planTune(c.t, local, c.on)
		if diff := cmp.Diff(c.want, brief(steps)); diff != "" || diag.CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %q and (-want +got):\n%s", name, err, c.code, diff)
		}
		for _, s := range steps {
			if s.kind == writeFile && s.text != written {
				t.Errorf("%s: got the unit\n%s\nwant\n%s", name, s.text, written)
			}
		}
	}
	steps, err := planTune(tuning{running: true, systemctl: true}, "/root/holdfast", true)
	if len(steps) > 0 || diag.CodeOf(err) != diag.CodePlace {
		t.Errorf("got %v, %v, want a program that the unit can't see to be refused", steps, err)
	}
}
