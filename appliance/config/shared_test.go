// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

func TestSharedLeavesOutWhatIsOneNodesOwn(t *testing.T) {
	const text = `# The queues of plant 7.
node:
  name: n1
  # on the fast disk
  data_dir: /srv/queue

# for everybody
listen: {client: "0.0.0.0:4222"}
cluster:
  name: plant-7
  peers: [n1:6222, n2:6222, n3:6222]
  secret: file:secret

# what is kept
accounts:
  shop: # the shop
    users: {admin: {}}
`
	const want = `# The queues of plant 7.
node: {data_dir: "/srv/queue"}

# for everybody
listen: {client: "0.0.0.0:4222"}

# what is kept
accounts:
  shop: # the shop
    users: {admin: {}}
`
	got, ok := config.Shared([]byte(text))
	if diff := cmp.Diff(want, string(got)); diff != "" || !ok {
		t.Errorf("(-want +got)\n%s", diff)
	}
	last, ok := config.Shared([]byte("log: {level: debug}\ncluster:\n  name: x\n# the end\nnode: {tags: [a]}"))
	if want := "log: {level: debug}\n# the end\n"; string(last) != want || !ok {
		t.Errorf("got %q, want %q", last, want)
	}
}

func TestSharedLeavesWhatItCannotCut(t *testing.T) {
	for _, text := range []string{"", "{node: {name: x}}", "- a", "a: [", "text"} {
		if got, ok := config.Shared([]byte(text)); ok {
			t.Errorf("%q: got %q, want that it can't be cut", text, got)
		}
	}
}

// TestBlockIsReadAsItWasMeant writes the block and loads it.
func TestBlockIsReadAsItWasMeant(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, `a "secret" \ file`)
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := config.Cluster{Name: "on", Listen: "[::]:6222", Advertise: "[fd00::2]:6222", Peers: []string{"n1:6222", "[fd00::2]:6222", "n3:6222"}}
	starter := config.Starter()
	cfg, l := config.Load(config.Options{Texts: []config.Text{{Name: filepath.Join(dir, "holdfast.yaml"), Data: append(starter, in.Block(secret)...)}}})
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	got := *cfg.Cluster
	if path := got.Secret.Path(); path != secret {
		t.Errorf("got secret in %q, want %q", path, secret)
	}
	got.Secret = config.Secret{}
	if !reflect.DeepEqual(in, got) {
		t.Errorf("got %+v, want %+v", got, in)
	}
}
