// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRedisRepliesAreRead(t *testing.T) {
	for text, want := range map[string]any{
		"+OK\r\n":                       "OK",
		":-3\r\n":                       -3,
		"$-1\r\n":                       nil,
		"$0\r\n\r\n":                    "",
		"$4\r\na\r\nb\r\n":              "a\r\nb",
		"*-1\r\n":                       []any(nil),
		"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n": []any{1, []any{"x"}},
	} {
		got, err := (&resp{r: bufio.NewReader(strings.NewReader(text))}).read()
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestRedisRefusalsAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"-ERR no such key\r\n":        "ERR no such key",
		"*1\r\n-NOGROUP no group\r\n": "NOGROUP no group",
		"?1\r\n":                      "got",
		"$5\r\nab\r\n":                "EOF",
		"\r\n":                        "read reply",
		"":                            "EOF",
	} {
		_, err := (&resp{r: bufio.NewReader(strings.NewReader(text))}).read()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestRedisCommandIsAListOfStrings(t *testing.T) {
	var out bytes.Buffer
	c := &resp{w: bufio.NewWriter(&out)}
	c.write("XADD", "q", "a\r\nb")
	if err := c.w.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "*3\r\n$4\r\nXADD\r\n$1\r\nq\r\n$4\r\na\r\nb\r\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestRedisEntriesHaveAnIDAndABody(t *testing.T) {
	reply := []any{[]any{"q", []any{[]any{"1-0", []any{"body", "x"}}, []any{"2-0", []any{"body", "y"}}}}}
	ids, bodies, err := entries(reply)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"1-0", "2-0"}, {"x", "y"}}, [][]string{ids, bodies}); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if ids, _, err := entries(nil); err != nil || len(ids) > 0 {
		t.Errorf("no reply: got %v, %v, want nothing", ids, err)
	}
	if _, _, err := entries([]any{[]any{"q", []any{[]any{"1-0", nil}}}}); err == nil {
		t.Error("entry without a field: got no error, want one")
	}
}
