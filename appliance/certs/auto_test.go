// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const today = "2026-11-29"

func TestOpenAutoServesEveryNameAndAddress(t *testing.T) {
	s := mustOpen(t, options(t, clockAt(today), "MQ.example.com.", "*.plant.example", "10.1.2.3", "[fd00::7]", "fe80::1%eth0", "fe80::1%eth1", "10.1.2.3", "my_host", "0.0.0.0", "::", ""))
	addr := serve(t, s.TLSConfig())
	names := []string{"*.plant.example", "localhost", "mq.example.com", "my_host", "10.1.2.3", "127.0.0.1", "::1", "fd00::7", "fe80::1"}
	if diff := cmp.Diff(names, serverInfo(s).Names, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("got other names (-want +got):\n%s", diff)
	}
	for _, name := range []string{"mq.example.com", "a.plant.example", "10.1.2.3", "fd00::7", "fe80::1", "my_host", "localhost", "127.0.0.1", "::1"} {
		served(t, addr, client(s.CA(), name, at(today)))
	}
	for _, name := range []string{"other.example.com", "10.1.2.4", "0.0.0.0", "::"} {
		if _, err := dial(addr, client(s.CA(), name, at(today))); err == nil {
			t.Errorf("got a handshake as %q, want a refusal", name)
		}
	}
	other := mustOpen(t, options(t, clockAt(today)))
	if _, err := dial(addr, client(other.CA(), "localhost", at(today))); err == nil {
		t.Error("got a handshake under another node's CA, want a refusal")
	}
}

func TestOpenAutoWritesPrivateKeysForTheOwnerOnly(t *testing.T) {
	o := options(t, clockAt(today))
	s := mustOpen(t, o)
	got := map[string]fs.FileMode{}
	for name := range filesIn(t, o.Dir) {
		info, err := os.Stat(filepath.Join(o.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = info.Mode().Perm()
	}
	if diff := cmp.Diff(map[string]fs.FileMode{"ca.pem": 0o600, "ca.crt": 0o644, "server.pem": 0o600}, got); diff != "" && runtime.GOOS != "windows" {
		t.Errorf("got other files or modes (-want +got):\n%s", diff)
	}
	if bytes.Contains(s.CA(), []byte(typeKey)) || !bytes.Equal(s.CA(), mustRead(t, s.CAFile())) {
		t.Errorf("got a CA of %d bytes, want what is in %s, without a key", len(s.CA()), s.CAFile())
	}
	key, ok := s.current.Load().cert.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		t.Errorf("got a key of type %T, want ECDSA P-256", s.current.Load().cert.PrivateKey)
	}
}

func TestOpenAutoAgainChangesNothing(t *testing.T) {
	o := options(t, clockAt(today), "a", "10.0.0.1", "b")
	s := mustOpen(t, o)
	before := filesIn(t, o.Dir)
	mustCheck(t, s, false)
	o.Names = []string{"b", "a", "A", "10.0.0.1"}
	mustCheck(t, mustOpen(t, o), false)
	if diff := cmp.Diff(before, filesIn(t, o.Dir)); diff != "" {
		t.Errorf("got other files (-before +after):\n%s", diff)
	}
}

func TestCheckRenewsWhenAThirdIsLeftWithoutARestart(t *testing.T) {
	c := clockAt(today)
	o := options(t, c)
	s := mustOpen(t, o)
	addr := serve(t, s.TLSConfig())
	ca, first := s.CA(), serverInfo(s).Fingerprint
	alive, err := dial(addr, client(ca, "localhost", c.now()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alive.Close() }()

	c.setTime(at(today).Add(397 * day * 2 / 3))
	mustCheck(t, s, false)
	if got := served(t, addr, client(ca, "localhost", c.now())); got != first {
		t.Errorf("got certificate %s, want %s", got, first)
	}
	c.advance(1e9)
	mustCheck(t, s, true)
	if got := served(t, addr, client(ca, "127.0.0.1", c.now())); got == first || got != serverInfo(s).Fingerprint {
		t.Errorf("got certificate %s, want %s", got, serverInfo(s).Fingerprint)
	}
	if want := c.now().Add(397 * day); !serverInfo(s).NotAfter.Equal(want) {
		t.Errorf("got an end of %s, want %s", serverInfo(s).NotAfter, want)
	}
	if err := talk(alive); err != nil {
		t.Errorf("got %v on a connection from before the renewal, want it to live on", err)
	}
	mustCheck(t, s, false)
	if got := serverInfo(mustOpen(t, o)).Fingerprint; got != serverInfo(s).Fingerprint {
		t.Errorf("got certificate %s after opening again, want %s", got, serverInfo(s).Fingerprint)
	}
}

func TestOtherNamesIssueAnotherCertificateOfTheSameCA(t *testing.T) {
	o := options(t, clockAt(today), "old.example")
	s := mustOpen(t, o)
	addr := serve(t, s.TLSConfig())
	ca := s.CA()
	s.SetNames([]string{"new.example"})
	mustCheck(t, s, true)
	served(t, addr, client(ca, "new.example", at(today)))
	if _, err := dial(addr, client(ca, "old.example", at(today))); err == nil {
		t.Error("got a handshake under the name that was taken away, want a refusal")
	}
	o.Names = []string{"third.example"}
	again := mustOpen(t, o)
	served(t, serve(t, again.TLSConfig()), client(ca, "third.example", at(today)))
	mustCheck(t, again, false)
}

func TestANameThatCannotStandInACertificateIsAWarning(t *testing.T) {
	o := options(t, clockAt(today), "good.example")
	for _, name := range []string{"münchen.example", "a b", "x:4222", "-a", "a..b", "*", "a.*.b", strings.Repeat("a", 64), strings.Repeat("a.", 130) + "a"} {
		o.Names = append(o.Names[:1:1], name)
		s, err := OpenAuto(o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantWarning(t, s, diag.CodeCertNames, name)
		served(t, serve(t, s.TLSConfig()), client(s.CA(), "good.example", at(today)))
	}
}

func TestAServerFileThatIsOfNoUseIsIssuedAgain(t *testing.T) {
	other := options(t, clockAt(today))
	mustOpen(t, other)
	foreign := mustRead(t, filepath.Join(other.Dir, serverFile))
	cases := map[string]func(o Options, path string, good []byte){
		"missing": func(_ Options, path string, _ []byte) { _ = os.Remove(path) },
		"empty":   func(_ Options, path string, _ []byte) { mustWrite(t, path, nil, 0o600) },
		"cut off": func(_ Options, path string, good []byte) { mustWrite(t, path, good[:len(good)-100], 0o600) },
		"key only": func(_ Options, path string, good []byte) {
			mustWrite(t, path, good[:bytes.Index(good, []byte("-----BEGIN C"))], 0o600)
		},
		"certificate of next key": func(_ Options, path string, good []byte) { mustWrite(t, path, mismatch(good, foreign), 0o600) },
		"of another CA":           func(_ Options, path string, _ []byte) { mustWrite(t, path, foreign, 0o600) },
		"readable by others":      func(_ Options, path string, good []byte) { mustWrite(t, path, good, 0o644) },
	}
	for name, harm := range cases {
		t.Run(name, func(t *testing.T) {
			if name == "readable by others" && runtime.GOOS == "windows" {
				t.Skip("skipping: no modes on Windows")
			}
			o := options(t, clockAt(today))
			s := mustOpen(t, o)
			addr, ca := serve(t, s.TLSConfig()), s.CA()
			harm(o, s.CertFile(), mustRead(t, s.CertFile()))
			again := mustOpen(t, o) // a start heals
			served(t, serve(t, again.TLSConfig()), client(ca, "localhost", at(today)))
			harm(o, s.CertFile(), mustRead(t, s.CertFile()))
			mustCheck(t, s, true) // and so does a running node
			served(t, addr, client(ca, "localhost", at(today)))
			mustCheck(t, s, false)
		})
	}
}

// mismatch is the key of one pair with the certificate of another, as a kill
// between two files would leave them.
func mismatch(key, cert []byte) []byte {
	begin := []byte("-----BEGIN CERT")
	return append(key[:bytes.Index(key, begin):bytes.Index(key, begin)], cert[bytes.Index(cert, begin):]...)
}

func TestALostCAIsNeverMadeAgain(t *testing.T) {
	other := options(t, clockAt(today))
	mustOpen(t, other)
	foreign := mustRead(t, filepath.Join(other.Dir, caFile))
	leaf := mustRead(t, filepath.Join(other.Dir, serverFile))
	cases := map[string]func(dir, path string, good []byte){
		"gone": func(_, path string, _ []byte) { _ = os.Remove(path) },
		"only the copy is left": func(dir, path string, _ []byte) {
			_ = errors.Join(os.Remove(path), os.Remove(filepath.Join(dir, serverFile)))
		},
		"only server is left": func(dir, path string, _ []byte) {
			_ = errors.Join(os.Remove(path), os.Remove(filepath.Join(dir, caCopy)))
		},
		"empty":          func(_, path string, _ []byte) { mustWrite(t, path, nil, 0o600) },
		"cut off":        func(_, path string, good []byte) { mustWrite(t, path, good[:len(good)/2], 0o600) },
		"key of another": func(_, path string, good []byte) { mustWrite(t, path, mismatch(foreign, good), 0o600) },
		"another CA":     func(_, path string, _ []byte) { mustWrite(t, path, foreign, 0o600) },
		"no CA": func(dir, path string, _ []byte) {
			mustWrite(t, path, leaf, 0o600)
			mustWrite(t, filepath.Join(dir, caCopy), leaf, 0o600)
		},
		"readable by others": func(_, path string, good []byte) { mustWrite(t, path, good, 0o644) },
		"a directory": func(_, path string, _ []byte) {
			_ = errors.Join(os.Remove(path), os.Mkdir(path, 0o700), os.Chmod(path, 0o700))
		},
	}
	for name, harm := range cases {
		t.Run(name, func(t *testing.T) {
			if name == "readable by others" && runtime.GOOS == "windows" {
				t.Skip("skipping: no modes on Windows")
			}
			o := options(t, clockAt(today))
			s := mustOpen(t, o)
			addr, ca := serve(t, s.TLSConfig()), s.CA()
			path := filepath.Join(o.Dir, caFile)
			harm(o.Dir, path, mustRead(t, path))
			entries := dirNames(t, o.Dir)

			_, err := OpenAuto(o)
			wantFault(t, err, diag.CodeCA, true, path)
			changed, err := s.Check()
			wantFault(t, err, diag.CodeCA, true)
			if changed {
				t.Error("got a change while the CA is lost, want none")
			}
			served(t, addr, client(ca, "localhost", at(today)))
			wantWarning(t, s, diag.CodeCA, path)
			if diff := cmp.Diff(entries, dirNames(t, o.Dir)); diff != "" {
				t.Errorf("got other files (-before +after):\n%s", diff)
			}
		})
	}
}

func dirNames(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestADamagedCopyOfTheCAIsWrittenAgain(t *testing.T) {
	o := options(t, clockAt(today))
	s := mustOpen(t, o)
	for name, harm := range map[string]func(){
		"gone":    func() { _ = os.Remove(s.CAFile()) },
		"empty":   func() { mustWrite(t, s.CAFile(), nil, 0o644) },
		"cut off": func() { mustWrite(t, s.CAFile(), s.CA()[:100], 0o644) },
	} {
		harm()
		mustCheck(t, s, false)
		if !bytes.Equal(mustRead(t, s.CAFile()), s.CA()) {
			t.Errorf("%s: got another copy, want the CA", name)
		}
	}
}

var errCut = errors.New("no space left on device")

// TestAKillAtAnyWriteHeals ends each start at its nth write, before or after the
// file was replaced, and starts again.
func TestAKillAtAnyWriteHeals(t *testing.T) {
	for n := 1; n <= 3; n++ {
		for _, done := range []bool{false, true} {
			o := options(t, clockAt(today), "a.example")
			writes := 0
			o.Write = func(path string, data []byte, perm fs.FileMode) error {
				if writes++; writes < n {
					return writeFile(path, data, perm)
				} else if writes > n || !done {
					return errCut
				}
				return errors.Join(writeFile(path, data, perm), errCut)
			}
			if s, err := OpenAuto(o); err == nil && len(s.Warnings()) == 0 {
				t.Fatalf("write %d: got no error and no warning, want one", n)
			}
			o.Write = writeFile
			kept := filesIn(t, o.Dir)[caFile]
			s := mustOpen(t, o)
			served(t, serve(t, s.TLSConfig()), client(s.CA(), "a.example", at(today)))
			if now := filesIn(t, o.Dir)[caFile]; kept != "" && now != kept {
				t.Errorf("write %d, done %t: got another CA after the second start, want the first", n, done)
			}
		}
	}
}

func TestAFullDiskAtARenewalKeepsTheOldCertificate(t *testing.T) {
	c := clockAt(today)
	o := options(t, c)
	first := mustOpen(t, o)
	c.setTime(serverInfo(first).NotAfter.Add(-day))
	o.Write = func(string, []byte, fs.FileMode) error { return errCut }
	s, err := OpenAuto(o)
	if err != nil {
		t.Fatalf("got %v, want a start with the old certificate", err)
	}
	wantWarning(t, s, diag.CodeCertificate, errCut.Error())
	addr := serve(t, s.TLSConfig())
	if changed, err := s.Check(); changed || !errors.Is(err, errCut) {
		t.Errorf("got changed %t and %v, want false and %v", changed, err, errCut)
	}
	if got := served(t, addr, client(s.CA(), "localhost", c.now())); got != serverInfo(first).Fingerprint {
		t.Errorf("got certificate %s, want %s", got, serverInfo(first).Fingerprint)
	}
	s.source.(*auto).write = writeFile
	mustCheck(t, s, true)
	if w := s.Warnings(); len(w) > 0 {
		t.Errorf("got warnings %q after there was room again, want none", texts(w))
	}
}
