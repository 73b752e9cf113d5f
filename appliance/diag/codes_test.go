// SPDX-License-Identifier: Apache-2.0

package diag_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// codes reads the constants from their source, so that one can't be forgotten here.
func codes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.BasicLit); ok && v.Kind == token.STRING {
			s, err := strconv.Unquote(v.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
		return true
	})
	return out
}

func TestEveryCodeHasASectionAndEverySectionACode(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var headings []string
	sections := regexp.MustCompile(`(?m)^### (.+)\n\n\S.*\n\n- Typical cause: \S.*\n- Fix: \S.*$`)
	for _, m := range sections.FindAllSubmatch(page, -1) {
		headings = append(headings, string(m[1]))
	}
	if diff := cmp.Diff(codes(t), headings); diff != "" {
		t.Errorf("got other sections in docs/errors.md than codes (-want +got):\n%s", diff)
	}
}

func TestCodesAreUniqueAndInOrder(t *testing.T) {
	all := codes(t)
	form := regexp.MustCompile(`^HF\d{4}$`)
	for _, c := range all {
		if !form.MatchString(c) {
			t.Errorf("got code %q, want HF and four digits", c)
		}
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(all))); !slices.Equal(sorted, all) {
		t.Errorf("got %v, want each code once and in order", all)
	}
}
