// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("holdfast.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("holdfast.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(instance)
}

func TestSchemaAcceptsGoodFiles(t *testing.T) {
	s := compiled(t)
	files, _ := filepath.Glob("testdata/good/*.yaml")
	texts := map[string]string{"starter": string(config.Starter())}
	for _, f := range append(files, "starter.yaml") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		// YAML turns an unquoted time into one that JSON prints in another form.
		texts[f] = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:+Z]+`).ReplaceAllString(string(text), `"$0"`)
	}
	for name, text := range texts {
		if err := validate(t, s, text); err != nil {
			t.Errorf("%s: got %v, want it valid", name, err)
		}
	}
}

func TestSchemaRefusesWhatLoadRefuses(t *testing.T) {
	s := compiled(t)
	for _, text := range []string{
		"nod: {}", "node: {name: 5}", "node: {tags: a}", "listen: {client: 4222}", "listen: {client: nope}", "listen: {http_token: hunter2}",
		"storage: {durability: often}", "storage: {limit: 80}", "storage: {limit: 80 percent}", "storage: {sync_interval: 5}", "storage: {sync_interval: 5 parsecs}",
		"accounts: {a.b: {}}", "accounts: {m: {streams: {S: {max_bytes: lots}}}}", "accounts: {m: {streams: {S: {max_bytes: 0}}}}",
		"accounts: {m: {streams: {S: {max_msgs: -1}}}}", "accounts: {m: {streams: {S: {num_replicas: 6}}}}", "accounts: {m: {streams: {S: {sealed: 1}}}}",
		"accounts: {m: {streams: {S: {subjects: [a..b]}}}}", "accounts: {m: {streams: {S: {first_seq: -1}}}}", "accounts: {m: {streams: {S: {replicas: 1}}}}",
		"accounts: {m: {streams: {S: {consumers: {c: {opt_start_time: today}}}}}}", "accounts: {m: {streams: {S: {max_bytes: 1GiB, consumers: [c]}}}}",
	} {
		if err := validate(t, s, text); err == nil {
			t.Errorf("%s: got no error from the schema, want one", text)
		}
		if _, l := load(t, text); l.Errors() == 0 {
			t.Errorf("%s: got no error from Load, want one", text)
		}
	}
}

func TestSchemaSaysWhatBelongsToALaterVersion(t *testing.T) {
	want := 0
	for _, k := range config.Keys() {
		if k.Later != nil {
			want++
		}
	}
	if n := strings.Count(string(config.Schema()), "(not in this version"); n != want || want == 0 {
		t.Errorf("got %d keys marked as not in this version, want %d", n, want)
	}
}

func TestStarterLoadsWithoutProblems(t *testing.T) {
	cfg, l := load(t, string(config.Starter()))
	if len(l) > 0 {
		t.Fatalf("got %v, want no problems", []diag.Problem(l))
	}
	if got, want := cfg.Node.DataDir, "/var/lib/holdfast"; got != want {
		t.Errorf("got data_dir %q, want the default %q", got, want)
	}
	builtIn, l := config.Load(config.Options{})
	if len(l) > 0 {
		t.Fatalf("got %v, want no problems with the built-in starter", l)
	}
	for _, c := range []*config.Config{cfg, builtIn} {
		data, err := json.Marshal([]any{config.APIValues(c.Accounts["main"].Streams["JOBS"]), config.APIValues(c.Accounts["main"].Streams["JOBS"].Consumers["worker"]), c.Accounts["main"].Users})
		if err != nil {
			t.Fatal(err)
		}
		want := `[{"max_bytes":268435456,"retention":"workqueue","subjects":["jobs.\u003e"]},{"ack_wait":30000000000,"max_deliver":5},`
		if !strings.HasPrefix(string(data), want) {
			t.Errorf("got %s, want %s", data, want)
		}
	}
}

var commented = regexp.MustCompile(`^( *)# ( *)([a-z_]+):( [^#]*)?(?:# .*)?$`)

func TestStarterHoldsEveryKey(t *testing.T) {
	text := string(config.Starter())
	for _, k := range config.Keys() {
		name := k.Path[strings.LastIndex(k.Path, ".")+1:]
		// What is inside of lists is shown at the mirror, which has the same keys.
		if !regexp.MustCompile(`(?m)^[ #]*` + name + `:`).MatchString(text) {
			t.Errorf("%s: got no line in the starter, want one", k.Path)
		}
	}
}

// The keys of a cluster are left out: the whole block belongs to a later version.
func TestStarterLinesCanBeUncommentedOneByOne(t *testing.T) {
	defaults := map[string]bool{}
	for _, k := range config.Keys() {
		section, _, _ := strings.Cut(k.Path, ".")
		if k.Default != "" && !strings.Contains(k.Path, "*") && section != "cluster" {
			defaults[k.Path[strings.LastIndex(k.Path, ".")+1:]] = true
		}
	}
	lines := strings.Split(string(config.Starter()), "\n")
	tried := map[string]bool{}
	for i, line := range lines {
		m := commented.FindStringSubmatch(line)
		if m == nil || m[2] != "" || len(m[1]) > 4 || !defaults[m[3]] {
			continue
		}
		tried[m[3]] = true
		changed := strings.Join(append(append(append([]string{}, lines[:i]...), m[1]+m[3]+":"+m[4]), lines[i+1:]...), "\n")
		if _, l := load(t, changed); len(l) > 0 {
			t.Errorf("%s: got %v, want no problems", line, []diag.Problem(l))
		}
	}
	for name := range defaults {
		if !tried[name] {
			t.Errorf("%s: got no commented line with its default, want one", name)
		}
	}
}
