// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// places lists code, position in the file and path of every problem.
func places(l diag.List) []string {
	var out []string
	for _, p := range l {
		out = append(out, fmt.Sprintf("%s %d:%d %s", p.Code, p.Pos.Line, p.Pos.Col, p.Path))
	}
	return out
}

func TestBadNameDoesNotHideWhatIsBelowIt(t *testing.T) {
	_, l := load(t, "accounts: {'a b': {streams: {'x.y': {max_byte: 1}, 'z*': {max_bytes: -1}}, users: {u: {role: god}}}}\n")
	want := []string{
		"HF1007 1:12 accounts.a b", "HF1007 1:30 accounts.a b.streams.x.y", "HF1004 1:38 accounts.a b.streams.x.y.max_byte",
		"HF1007 1:52 accounts.a b.streams.z*", "HF1005 1:70 accounts.a b.streams.z*.max_bytes", "HF1006 1:94 accounts.a b.users.u.role",
	}
	if diff := cmp.Diff(want, places(l)); diff != "" {
		t.Errorf("got other problems (-want +got):\n%s", diff)
	}
}

func TestFirstByteThatIsNoTextIsNamedAtItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"node: {}\nlog: {level: \xff}\n":          "HF1001 2:14 byte 0xff is not UTF-8 | save the file as UTF-8",
		"node: {name: \"ö\xe9\"}\n":               "HF1001 1:17 byte 0xe9 is not UTF-8 | save the file as UTF-8",
		"node: {}\r\n# a\x07b\r\n":                "HF1001 2:4 control character U+0007 | remove the character",
		"a: \x00\n":                               "HF1001 1:4 control character U+0000 | remove the character",
		"# \u009b\n":                              "HF1001 1:3 control character U+009B | remove the character",
		"\xff\xfen\x00o\x00d\x00e\x00:\x00\n\x00": "HF1001 1:1 byte 0xff is not UTF-8 | save the file as UTF-8",
		"node: {}\n# \ufffe\n":                    "HF1001 2:3 control character U+FFFE | remove the character",
		"node: {name: \xed\xa0\x80}\n":            "HF1001 1:14 byte 0xed is not UTF-8 | save the file as UTF-8",
	} {
		_, l := load(t, text)
		if len(l) != 1 {
			t.Errorf("%q: got %v, want one problem", text, []diag.Problem(l))
			continue
		}
		if got := fmt.Sprintf("%s %d:%d %s | %s", l[0].Code, l[0].Pos.Line, l[0].Pos.Col, l[0].What, l[0].Fix); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestTextOfEveryLanguageLoads(t *testing.T) {
	for _, text := range []string{"\ufeffnode: {name: a}\n", "# äöü 漢字 😀 \u00a0 \ufffd\n", "node: {}\r\nlog: {}\r\n"} {
		if _, l := load(t, text); len(l) > 0 {
			t.Errorf("%q: got %v, want no problems", text, []diag.Problem(l))
		}
	}
}

func TestNodeNameThatTheServerCannotUseIsRefused(t *testing.T) {
	for name, bad := range map[string]bool{
		"": false, "n1": false, "ä-1": false, strings.Repeat("n", 255): false,
		"   ": true, "a b": true, "a\\tb": true, "a\\u200bb": true, "a\\x07": true, "a\\u00a0b": true, strings.Repeat("n", 256): true,
	} {
		_, l := load(t, "node: {name: \""+name+"\"}\n")
		if got := fmt.Sprint(places(l)) == "[HF1007 1:14 node.name]"; got != bad || !bad && len(l) > 0 {
			t.Errorf("%q: got %v, want refused %t", name, []diag.Problem(l), bad)
		}
	}
}

func TestEmptyDataDirIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	write(t, file, "node: {data_dir: \"\"}\n", 0o644)
	_, l := config.Load(options(file))
	if got := fmt.Sprint(places(l)); got != "[HF1011 1:18 node.data_dir]" {
		t.Errorf("got %s, want one problem", got)
	}
	complete(t, l)
}

func TestBlankSecretIsRefusedByCheckAndReveal(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{"": "empty", "\n": "empty", " \t \r\n": "white space", " \u00a0": "white space", " a b \r\n": ""} {
		write(t, filepath.Join(dir, "token"), content, 0o600)
		cfg, l := config.Load(config.Options{Environ: []string{"HOLDFAST_LISTEN__HTTP_TOKEN=file:" + filepath.Join(dir, "token")}})
		complete(t, l)
		text, err := cfg.Listen.HTTPToken.Reveal()
		if want == "" {
			if len(l) > 0 || err != nil || text != " a b " {
				t.Errorf("%q: got %q, %v, %v, want it without its line end only", content, text, err, []diag.Problem(l))
			}
			continue
		}
		if len(l) != 1 || l[0].Code != diag.CodeSecretFile || !strings.Contains(l[0].What, want) || diag.CodeOf(err) != diag.CodeSecretFile {
			t.Errorf("%q: got %v and %v, want %q twice", content, []diag.Problem(l), err, want)
		}
	}
}

func TestBlocksOfLaterVersionsAreRefusedEvenWhenEmpty(t *testing.T) {
	for _, key := range []string{"uplink", "sites", "backup"} {
		for _, value := range []string{"{}", "", "\"\"", "false", "[]", "off"} {
			_, l := load(t, key+": "+value+"\n")
			if got, want := fmt.Sprint(places(l)), "[HF1009 1:1 "+key+"]"; got != want {
				t.Errorf("%s: %s: got %s, want %s", key, value, got, want)
			}
		}
	}
	if _, l := load(t, "storage: {encryption: {}}\n"); len(l) > 0 {
		t.Errorf("got %v, want no problems: it asks for nothing", []diag.Problem(l))
	}
}

func TestTagsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"node: {name: !foo x}\n":             "HF1001 1:14 node.name",
		"node: {name: !!binary eA==}\n":      "HF1001 1:14 node.name",
		"node: {name: !!null x}\n":           "HF1001 1:14 node.name",
		"node: {tags: !!set [a]}\n":          "HF1001 1:14 node.tags",
		"node: {tags: [a, !foo b]}\n":        "HF1001 1:18 node.tags.1",
		"node: !foo {name: x}\n":             "HF1001 1:7 node",
		"!foo\nnode: {}\n":                   "HF1001 1:1 ",
		"node: {!foo name: x}\n":             "HF1001 1:8 node.name",
		"nats: |\n  max_payload: !foo 8MB\n": "HF1001 2:16 nats.max_payload",
	} {
		file := filepath.Join(t.TempDir(), "f.yaml")
		write(t, file, text, 0o644)
		_, l := config.Load(options(file))
		complete(t, l)
		if got := fmt.Sprint(places(l)); got != "["+want+"]" {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestEmptyItemInAVariableIsRefused(t *testing.T) {
	for _, text := range []string{"a,,b", "a,", ",", " , a", "[a,,b]", "[!foo a]"} {
		_, l := load(t, "node: {}\n", "HOLDFAST_NODE__TAGS="+text)
		if len(l) != 1 || l[0].Pos.Origin != "$HOLDFAST_NODE__TAGS" {
			t.Errorf("%q: got %v, want one problem", text, []diag.Problem(l))
		}
	}
	cfg, l := load(t, "node: {tags: [x]}\n", "HOLDFAST_NODE__TAGS=")
	if len(l) > 0 || len(cfg.Node.Tags) > 0 {
		t.Errorf("got %v, %v, want an empty list", cfg.Node.Tags, []diag.Problem(l))
	}
}

func TestKeysInPlaceOfAValueAreReportedWhereTheyStand(t *testing.T) {
	for text, want := range map[string]string{
		"listen: {http_token: {a: x}}\n":     "HF1005 1:22 listen.http_token",
		"listen:\n  http_token:\n    a: x\n": "HF1005 3:5 listen.http_token",
		"node: {tags: {a: x}}\n":             "HF1005 1:14 node.tags",
		"node: {tags: [{a: x}]}\n":           "HF1005 1:15 node.tags.0",
	} {
		if _, l := load(t, text); fmt.Sprint(places(l)) != "["+want+"]" {
			t.Errorf("%q: got %v, want %s", text, places(l), want)
		}
	}
}

func TestParseDurationKnowsDaysAndSaysWhatIsWrong(t *testing.T) {
	if got, err := config.ParseDuration("1d12h"); err != nil || got != 36*time.Hour {
		t.Errorf("got %v, %v, want 36h", got, err)
	}
	for text, want := range map[string]string{
		"soon": `"soon" is not a duration`, "": `"" is not a duration`, "-1s": `"-1s" is negative`, "5": `"5" is not a duration`,
		"999999999999h": `"999999999999h" is too long`, "99999999999d": `"99999999999d" is too long`, "106751d25h": `"106751d25h" is too long`,
		"1d999999999999h": `"1d999999999999h" is too long`,
	} {
		_, err := config.ParseDuration(text)
		if err == nil || err.Error() != want || diag.Hint(err) == "" {
			t.Errorf("%q: got %v with hint %q, want %s", text, err, diag.Hint(err), want)
		}
	}
}

func TestPortZeroIsInTheFix(t *testing.T) {
	_, l := load(t, "listen: {client: \"127.0.0.1:99999\"}\n")
	if len(l) != 1 || !strings.Contains(l[0].Fix, "0 to 65535") {
		t.Errorf("got %v, want a fix that names 0", []diag.Problem(l))
	}
}

func TestFilterThatMatchesNothingIsReportedOnce(t *testing.T) {
	_, l := load(t, `accounts: {m: {streams: {S: {max_bytes: 1GiB, retention: workqueue, subjects: ["s.>"],
  consumers: {a: {filter_subject: no}, b: {filter_subject: no}, c: {filter_subject: s.c}, d: {}}}}}}`)
	want := []string{
		"HF1105 2:35 accounts.m.streams.S.consumers.a.filter_subject", "HF1105 2:60 accounts.m.streams.S.consumers.b.filter_subject",
		"HF1111 2:91 accounts.m.streams.S.consumers.d",
	}
	if diff := cmp.Diff(want, places(l)); diff != "" {
		t.Errorf("got other problems (-want +got):\n%s", diff)
	}
}

func TestTemplatesAreRefusedWhereTheyBecomePermissions(t *testing.T) {
	for text, want := range map[string]string{
		`accounts: {"a{{b": {}}`:                                                                                              "HF1007 1:12 accounts.a{{b",
		`accounts: {m: {users: {"{{name()}}": {}}}}`:                                                                          "HF1007 1:24 accounts.m.users.{{name()}}",
		`accounts: {m: {streams: {"S{{": {max_bytes: 1GiB}}}}`:                                                                "HF1007 1:26 accounts.m.streams.S{{",
		`accounts: {m: {users: {u: {permissions: {publish: [a, "x.{{name()}}"]}}}}}`:                                          "HF1006 1:55 accounts.m.users.u.permissions.publish.1",
		`accounts: {m: {users: {u: {permissions: {subscribe: ["{{x"]}}}}}`:                                                    "HF1006 1:54 accounts.m.users.u.permissions.subscribe.0",
		`accounts: {m: {users: {u: {permissions: {publish: ["a\x01"]}}}}}`:                                                    "HF1006 1:52 accounts.m.users.u.permissions.publish.0",
		`accounts: {m: {streams: {S: {max_bytes: 1GiB, subjects: ["a.{{b}}"]}}, users: {u: {role: producer, streams: [S]}}}}`: "HF1006 1:110 accounts.m.users.u.streams.0",
	} {
		if _, l := load(t, text); fmt.Sprint(places(l)) != "["+want+"]" {
			t.Errorf("%s: got %v, want %s", text, places(l), want)
		}
	}
	if _, l := load(t, `accounts: {m: {streams: {S: {max_bytes: 1GiB, subjects: ["a.{{b}}"]}}}}`); len(l) > 0 {
		t.Errorf("got %v, want no problems: no permission holds the subject", []diag.Problem(l))
	}
}
