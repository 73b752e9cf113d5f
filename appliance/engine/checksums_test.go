// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
)

// TestStartRestoresLostChecksums is what a power cut leaves that comes between the two
// writes of an object's metadata: without the checksum, or with the one from before.
func TestStartRestoresLostChecksums(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	fill(t, r, e, "shop", 3, 5)
	nc := connect(t, r, e, "shop")
	for _, stream := range []string{"S1", "S2"} {
		request(t, nc, "$JS.API.CONSUMER.CREATE."+stream+".c", `{"stream_name":"`+stream+`","config":{"name":"c","durable_name":"c","ack_policy":"explicit"}}`)
	}
	nc.Close()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.StoreDir, "jetstream", r.public(t, "shop"), "streams")
	sums := map[string][]byte{}
	for _, name := range []string{"S0", "S1", "S2", "S1/obs/c", "S2/obs/c"} {
		sum, err := os.ReadFile(filepath.Join(dir, name, "meta.sum"))
		if err != nil {
			t.Fatal(err)
		}
		sums[name] = sum
	}
	for name, left := range map[string][]byte{"S0": nil, "S1": []byte("0123456789abcdef"), "S1/obs/c": nil, "S2/obs/c": {}} {
		path := filepath.Join(dir, name, "meta.sum")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if left != nil {
			if err := os.WriteFile(path, left, 0o640); err != nil {
				t.Fatal(err)
			}
		}
	}

	again := started(t, r, s, nil)
	p := again.Progress()
	if diff := cmp.Diff([]string{"shop/S0", "shop/S1", "shop/S1/c", "shop/S2/c"}, p.Restored); diff != "" || len(p.Unrecovered) > 0 || p.StreamsDone != 3 {
		t.Errorf("got %+v, want all 3 streams back (-want +got):\n%s", p, diff)
	}
	for name, want := range sums {
		if got, err := os.ReadFile(filepath.Join(dir, name, "meta.sum")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got checksum %q and %v, want %q as the server wrote it", name, got, err, want)
		}
	}
	nc = connect(t, r, again, "shop")
	request(t, nc, "$JS.API.CONSUMER.INFO.S1.c", "")
	request(t, nc, "$JS.API.CONSUMER.INFO.S2.c", "")
	request(t, nc, "$JS.API.STREAM.MSG.GET.S0", `{"seq":5}`)
}

// request is a request of the JetStream API that must succeed.
func request(t *testing.T, nc *nats.Conn, subject, body string) {
	t.Helper()
	m, err := nc.Request(subject, []byte(body), patience)
	if err != nil || bytes.Contains(m.Data, []byte(`"error"`)) {
		t.Fatalf("%s: got %v and %v, want no error", subject, m, err)
	}
}

func TestMetadataThatIsNotWholeIsLeftToTheServer(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "jetstream", "A", "streams", "S")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, meta := range []string{"", `{"name":"S","max_by`, `{"name":"T"}`, "\x00\x00\x00"} {
		if err := os.WriteFile(filepath.Join(dir, "meta.inf"), []byte(meta), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := mend(root, Names{}, nil, &checking{})
		if err != nil || len(m.restored) > 0 {
			t.Errorf("%q: got %v and %v, want nothing done", meta, m, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "meta.sum")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: got %v, want no checksum", meta, err)
		}
	}
}
