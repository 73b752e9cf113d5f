// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

func TestMSIVersionHasThreeNumbers(t *testing.T) {
	for version, want := range map[string]string{"0.1.0": "0.1.0", "0.1.0-rc.1": "0.1.0", "1.2.3+build.4": "1.2.3", "1.2.3-rc.1+b-2": "1.2.3"} {
		if got, err := msiVersion(version); err != nil || got != want {
			t.Errorf("got %s, %v for %s, want %s", got, err, version, want)
		}
	}
	if _, err := msiVersion("1.2"); err == nil {
		t.Error("got no error for 1.2")
	}
}

func TestCodesOfMSIAreStable(t *testing.T) {
	a, b := codeFor("product 0.1.0"), codeFor("product 0.2.0")
	if a != codeFor("product 0.1.0") || a == b {
		t.Errorf("got %s and %s, want one for each version", a, b)
	}
	if len(a) != 36 || a[14] != '5' || strings.ToUpper(a) != a {
		t.Errorf("got %s, want a GUID in capitals", a)
	}
}

// What wixl was told and what is put in its place must be about one product.
func TestTablesOfMSIFitItsSource(t *testing.T) {
	wxs, err := os.ReadFile("msi/holdfast.wxs")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range [][]byte{environmentTable(), registryTable("1.2.3"), upgradeTable("1.2.3")} {
		rows := strings.Split(strings.TrimSuffix(string(table), "\r\n"), "\r\n")
		for _, row := range rows[3:] {
			cells := strings.Split(row, "\t")
			if len(cells) != strings.Count(rows[0], "\t")+1 {
				t.Errorf("got %d cells in %q, want those of %q", len(cells), row, rows[0])
			}
			for _, c := range cells {
				if guid := strings.Trim(c, "{}"); guid != c && !strings.Contains(string(wxs), guid) {
					t.Errorf("got %s, which is not in the source", c)
				}
			}
		}
	}
	if !strings.Contains(string(registryTable("1.2.3")), "\t1.2.3\t") {
		t.Error("the version is not in the registry")
	}
}
