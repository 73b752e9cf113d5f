// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestOpenCreatesAPrivateDirectory(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, Options{})
	wantNames(t, path, lockName, stampName, credsName, resolverName, tlsName)
	for _, dir := range []string{path, d.CredsDir()} {
		fi, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.Mode().Perm(); got != 0o700 && runtime.GOOS != "windows" {
			t.Errorf("got mode %04o of %s, want 0700", got, dir)
		}
	}
}

func TestLayoutIsBelowThePath(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, Options{})
	got := []string{d.Path(), d.StoreDir(), d.IdentityFile(), d.CredsDir(), d.ResolverDir(), d.Socket(), SocketPath(path)}
	want := []string{
		path, path, path + "/identity.json", path + "/creds", path + "/resolver", path + "/admin.sock", path + "/admin.sock",
	}
	for i := range want {
		want[i] = filepath.FromSlash(want[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
}

func TestOpenMakesARelativePathAbsolute(t *testing.T) {
	path := newPath(t)
	t.Chdir(filepath.Dir(path))
	if got := mustOpen(t, "data", Options{}).Path(); !filepath.IsAbs(got) || filepath.Base(got) != "data" {
		t.Errorf("got path %q, want an absolute one", got)
	}
}

func TestOpenDoesNotCreateParents(t *testing.T) {
	path := filepath.Join(newPath(t), "lib", "holdfast")
	err := openErr(path, Options{})
	wantFault(t, err, diag.CodeAccess, true, path, "parent "+filepath.Dir(path)+" does not exist")
	if _, err := os.Stat(filepath.Dir(filepath.Dir(path))); !os.IsNotExist(err) {
		t.Errorf("got %v, want no directory to be created", err)
	}
}

func TestOpenRefusesAFileInPlaceOfADirectory(t *testing.T) {
	path := filepath.Join(newDirWith(t, "file"), "file")
	wantFault(t, openErr(path, Options{}), diag.CodeAccess, true, path, "not a directory")
	wantFault(t, openErr(filepath.Join(path, "data"), Options{}), diag.CodeAccess, true, path, "not a directory")
}

func TestOpenRefusesAnEmptyPath(t *testing.T) {
	if err := openErr("", Options{}); err == nil {
		t.Error("got no error, want one")
	}
}

func TestNodeNameIsGeneratedOnceAndKept(t *testing.T) {
	path := newPath(t)
	first := mustOpen(t, path, Options{})
	name, id := first.NodeName(), first.NodeID()
	if !regexp.MustCompile(`^hf-[a-z2-7]{10}$`).MatchString(name) {
		t.Errorf("got name %q, want hf- and ten characters", name)
	}
	if len(id) < 20 {
		t.Errorf("got id %q, want at least 100 random bits", id)
	}
	mustClose(t, first)
	second := mustOpen(t, path, Options{})
	if second.NodeName() != name || second.NodeID() != id {
		t.Errorf("got %q %q after reopening, want %q %q", second.NodeName(), second.NodeID(), name, id)
	}
	if other := mustOpen(t, newPath(t), Options{}); other.NodeName() == name || other.NodeID() == id {
		t.Errorf("got %q %q twice, want different ones", name, id)
	}
}

func TestConfiguredNodeNameIsKeptWhenTheKeyIsRemoved(t *testing.T) {
	path := newPath(t)
	mustClose(t, mustOpen(t, path, Options{NodeName: "n1"}))
	mustClose(t, mustOpen(t, path, Options{NodeName: "n1"}))
	if got := mustOpen(t, path, Options{}).NodeName(); got != "n1" {
		t.Errorf("got name %q, want n1", got)
	}
}

func TestOpenRefusesAChangedNodeName(t *testing.T) {
	path := newPath(t)
	mustClose(t, mustOpen(t, path, Options{NodeName: "n1"}))
	wantFault(t, openErr(path, Options{NodeName: "n2"}), diag.CodeNameChanged, true, `"n1"`, `"n2"`, `set node.name back to "n1"`)
	if got := mustOpen(t, path, Options{}).NodeName(); got != "n1" {
		t.Errorf("got name %q after the refusal, want n1", got)
	}
}

func TestOpenRefusesANodeNameThatNATSCannotUse(t *testing.T) {
	for _, name := range []string{"two words", "tab\tname", "line\n", "\x00", "\xff", string(make([]byte, 300))} {
		path := newPath(t)
		wantFault(t, openErr(path, Options{NodeName: name}), diag.CodeName, true, "node name")
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("got %v for name %q, want nothing to be created", err, name)
		}
	}
}

func TestStoredAccountsAreDirectories(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, Options{})
	for _, step := range []struct {
		dir  string
		want []string
	}{
		{"", nil},
		{"jetstream", nil},
		{"jetstream/lost+found", nil},
		{"jetstream/ACCOUNT", []string{"ACCOUNT"}},
	} {
		if err := os.MkdirAll(filepath.Join(path, filepath.FromSlash(step.dir)), 0o700); err != nil {
			t.Fatal(err)
		}
		got, err := d.StoredAccounts()
		if err != nil || !slices.Equal(got, step.want) {
			t.Errorf("with %q: got %v, %v, want %v", step.dir, got, err, step.want)
		}
	}
}

func TestVolumeOfAnAbsentPathIsItsParents(t *testing.T) {
	path := newPath(t)
	got, err := VolumeOf(filepath.Join(path, "not", "yet"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := VolumeOf(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if got.Total != want.Total || got.FSType != want.FSType {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Total == 0 || got.Used == 0 || got.Free > got.Total || got.Used > got.Total || got.FSType == "" || got.ReadOnly {
		t.Errorf("got %+v, want sizes that fit together, a type, and a writable volume", got)
	}
}
