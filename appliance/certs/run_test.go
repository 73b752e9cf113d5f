// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRunTellsEachChangeAndEachErrorOnce(t *testing.T) {
	ca := newIssuer(t, "ca", nil)
	dir := t.TempDir()
	f := put(t, dir, ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example"), ca)
	synctest.Test(t, func(t *testing.T) {
		s := mustOpenFiles(t, f)
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx, Every, func() { got = append(got, "changed") }, func(error) { got = append(got, "failed") })
		}()
		look := func(times int) {
			time.Sleep(time.Duration(times) * Every) //nolint:forbidigo // synctest's clock, not a wait
			synctest.Wait()
		}
		look(3)
		broken := func() { mustWrite(t, f.Key, nil, 0o600) }
		broken()
		look(3)
		put(t, dir, ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example"), ca)
		look(3)
		broken()
		look(2)
		_ = os.Remove(f.Key)
		look(2)
		cancel()
		<-ended
		if diff := cmp.Diff([]string{"failed", "changed", "failed", "failed"}, got); diff != "" {
			t.Errorf("got other calls (-want +got):\n%s", diff)
		}
	})
}

// TestNothingPrintsAPrivateKey prints all that the package hands out, and its
// insides, in every way that a log could.
func TestNothingPrintsAPrivateKey(t *testing.T) {
	o := options(t, clockAt(today), "bad name")
	s, err := OpenAuto(o)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{typeKey}
	for _, data := range []string{string(mustRead(t, s.KeyFile())), filesIn(t, o.Dir)[caFile]} {
		p, _, err := parsePair([]byte(data), []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		key, err := p.PrivateKey.(*ecdsa.PrivateKey).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, strings.Split(data, "\n")[1], fmt.Sprintf("%x", key), fmt.Sprint(key), fmt.Sprintf("%#v", key),
			base64.StdEncoding.EncodeToString(key), p.PrivateKey.(*ecdsa.PrivateKey).D.String()) //nolint:staticcheck // D is what fmt would print
	}
	var out strings.Builder
	look := func() {
		for _, v := range []any{s, *s.source.(*auto), s.TLSConfig(), s.Info(), s.Warnings(), s.current.Load().failed} {
			fmt.Fprintf(&out, "%v %+v %#v\n", v, v, v)
		}
		if err := json.NewEncoder(&out).Encode(map[string]any{"info": s.Info(), "warnings": s.Warnings(), "store": s}); err != nil {
			t.Fatal(err)
		}
		out.Write(s.CA())
	}
	look()
	data := mustRead(t, o.Dir+"/"+caFile)
	mustWrite(t, o.Dir+"/"+caFile, data[:len(data)-200], 0o600)
	if _, err := s.Check(); err == nil {
		t.Fatal("got no error for a damaged CA, want one")
	}
	look()
	for _, secret := range secrets {
		if strings.Contains(out.String(), secret) {
			t.Errorf("got %q in the output, want no private key", secret)
		}
	}
}
