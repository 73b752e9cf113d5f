// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestVersionsOfDistributions(t *testing.T) {
	for version, want := range map[string][2]string{
		"0.1.0":              {"0.1.0", "0.1.0"},
		"0.1.0-dev":          {"0.1.0~dev", "0.1.0~dev"},
		"0.1.0-rc.1":         {"0.1.0~rc.1", "0.1.0~rc.1"},
		"1.20.3-rc-1":        {"1.20.3~rc-1", "1.20.3~rc_1"},
		"0.1.0+site.2":       {"0.1.0+site.2", "0.1.0+site.2"},
		"0.1.0-rc.1+git.abc": {"0.1.0~rc.1+git.abc", "0.1.0~rc.1+git.abc"},
	} {
		deb, rpm, err := distVersions(version)
		if got := [2]string{deb, rpm}; err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", version, got, err, want)
		}
	}
	for _, version := range []string{"", "v0.1.0", "0.1", "0.1.0-", "0.1.0_1", "0.1.0 ", "dev"} {
		if deb, rpm, err := distVersions(version); err == nil {
			t.Errorf("%q: got %q and %q, want an error", version, deb, rpm)
		}
	}
}

func TestPreReleaseIsOlderThanItsRelease(t *testing.T) {
	need(t, "dpkg", "rpm")
	order := []string{"0.1.0-dev", "0.1.0-rc.1", "0.1.0-rc.2", "0.1.0", "0.1.1-rc.1"}
	for i := range len(order) - 1 {
		olderDeb, olderRPM, _ := distVersions(order[i])
		newerDeb, newerRPM, _ := distVersions(order[i+1])
		if err := exec.CommandContext(t.Context(), "dpkg", "--compare-versions", olderDeb+"-1", "lt", newerDeb+"-1").Run(); err != nil {
			t.Errorf("deb: got %v for %s < %s, want true", err, olderDeb, newerDeb)
		}
		out, err := exec.CommandContext(t.Context(), "rpm", "--eval", `%{lua: print(rpm.vercmp("`+olderRPM+`", "`+newerRPM+`"))}`).Output()
		if err != nil || strings.TrimSpace(string(out)) != "-1" {
			t.Errorf("rpm: got %q, %v for %s and %s, want -1", out, err, olderRPM, newerRPM)
		}
	}
}

const testChanges = `# Changelog

Kinds: CHANGE and others.

## Unreleased

- [FEATURE] packages: a line that is so long that it has to be wrapped somewhere before its end is reached.
- [BUGFIX] second: on
  two lines.

## 0.1.0 / 2026-11-30

- [FEATURE] first. (#1)
`

func TestChangelogBecomesDebians(t *testing.T) {
	releases, err := readChangelog(testChanges, "0.2.0-rc.1", time.Unix(testDate, 0))
	if err != nil {
		t.Fatal(err)
	}
	got, err := debianChangelog(releases)
	if err != nil {
		t.Fatal(err)
	}
	want := `holdfast (0.2.0~rc.1-1) unstable; urgency=medium

  * [FEATURE] packages: a line that is so long that it has to be wrapped
    somewhere before its end is reached.
  * [BUGFIX] second: on two lines.

 -- ` + maintainer + `  Mon, 30 Nov 2026 00:53:20 +0000

holdfast (0.1.0-1) unstable; urgency=medium

  * [FEATURE] first. (#1)

 -- ` + maintainer + `  Mon, 30 Nov 2026 00:00:00 +0000
`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("changelog differs (-want +got):\n%s", d)
	}
}

func TestChangelogOfAReleaseLeavesOutWhatIsNot(t *testing.T) {
	releases, err := readChangelog(testChanges, "0.1.0", time.Unix(testDate, 0))
	if err != nil || len(releases) != 1 || releases[0].version != "0.1.0" || len(releases[0].changes) != 1 {
		t.Errorf("got %+v, %v, want the section of 0.1.0 alone", releases, err)
	}
	for text, want := range map[string]string{
		"# Changelog\n":                        `no section for version "0.2.0"`,
		"# Changelog\n\n## 0.1.0 / 2026-11-30": `no section for version "0.2.0"`,
		"# Changelog\n\n## 0.2.0\n":            `section "0.2.0" has no date`,
	} {
		if _, err := readChangelog(text, "0.2.0", time.Unix(testDate, 0)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
