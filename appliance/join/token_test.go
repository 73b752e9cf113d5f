// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func reveal(t testing.TB, token Token) string {
	t.Helper()
	text, err := token.Reveal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTokenIsOneLineThatIsReadAgain(t *testing.T) {
	t.Parallel()
	in := NewToken([]string{"n1:6223", "[fd00::1]:6223"}, sha256.Sum256([]byte("ca")), time.Unix(1800000000, 5), "n2:6222")
	text := reveal(t, in)
	if strings.ContainsAny(text, " \n+/=") {
		t.Errorf("got %q, want one word", text)
	}
	for _, as := range []string{text, text + "\n", "  " + text[:40] + "\r\n" + text[40:]} {
		if got, err := ParseToken(as); err != nil || !reflect.DeepEqual(got, in) {
			t.Errorf("%q: got %v and %v, want the same", as, got, err)
		}
	}
	if other := reveal(t, NewToken(in.Addresses, in.CA, in.Expires, in.For)); other == text {
		t.Error("got the same token twice")
	}
	// The whole text but for its beginning and its sum is secret or public; none may show
	// the secret by being printed.
	if s := fmt.Sprintf("%v %+v %#v %s", in, in, in, in.LogValue()); strings.Contains(s, fmt.Sprint(in.secret)) || strings.Contains(s, "0x") {
		t.Errorf("got %q, want no secret in it", s)
	}
}

// TestEveryChangedTokenIsRefused changes each character, and cuts at each.
func TestEveryChangedTokenIsRefused(t *testing.T) {
	t.Parallel()
	text := reveal(t, NewToken([]string{"n1:6223"}, sha256.Sum256(nil), time.Unix(1800000000, 0), ""))
	for i := range text {
		for _, bad := range []string{text[:i] + string("Aa"[b2i(text[i] == 'A')]) + text[i+1:], text[:i]} {
			if got, err := ParseToken(bad); diag.CodeOf(err) != diag.CodeClusterToken || diag.Hint(err) == "" || strings.Contains(err.Error(), text[10:]) {
				t.Fatalf("%q: got %v and %v, want %s", bad, got, err, diag.CodeClusterToken)
			}
		}
	}
	for _, bad := range []string{"", "hfjoin2-" + text[8:], strings.Repeat("x", longestToken+1), text + text} {
		if _, err := ParseToken(bad); diag.CodeOf(err) != diag.CodeClusterToken {
			t.Errorf("%.20q: got %v, want %s", bad, err, diag.CodeClusterToken)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// FuzzParseToken: what is read is the token that it was, and nothing panics.
func FuzzParseToken(f *testing.F) {
	f.Add(reveal(f, NewToken([]string{"n1:6223"}, sha256.Sum256(nil), time.Unix(1800000000, 0), "n2:6222")))
	f.Add("hfjoin1-")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			return
		}
		if got, want := reveal(t, token), strings.Join(strings.Fields(text), ""); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func machine(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// clock is one that tests set.
type clock struct{ now time.Time }

func newLedger(t *testing.T) (*Ledger, *clock) {
	t.Helper()
	c := &clock{time.Unix(1800000000, 0).UTC()}
	return &Ledger{Path: filepath.Join(t.TempDir(), "invites.json"), Write: os.WriteFile, Now: func() time.Time { return c.now }}, c
}

func claimOf(t *testing.T, token Token, m ed25519.PrivateKey) Claim {
	t.Helper()
	public, err := token.Public()
	if err != nil {
		t.Fatal(err)
	}
	return Claim{Token: public, Machine: m.Public().(ed25519.PublicKey), Node: "n2"}
}

func TestLedgerLetsATokenBeUsedByOneMachine(t *testing.T) {
	t.Parallel()
	l, clock := newLedger(t)
	token := NewToken([]string{"n1:6223"}, sha256.Sum256(nil), clock.now.Add(time.Hour), "n2:6222")
	if err := l.Add(token); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(l.Path)
	if err != nil || strings.Contains(string(text), reveal(t, token)[20:40]) {
		t.Errorf("got %v and %q, want no secret", err, text)
	}
	if info, err := os.Stat(l.Path); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("got %v and %v, want mode 0600", info, err)
	}
	mine, other := claimOf(t, token, machine(t)), claimOf(t, token, machine(t))
	use := func(c Claim, want Reason) string {
		t.Helper()
		again := &Ledger{Path: l.Path, Write: l.Write, Now: l.Now} // as after a restart
		forPeer, refused, err := again.Use(c)
		if err != nil {
			t.Fatal(err)
		}
		got := Reason("")
		if refused != nil {
			got = refused.Reason
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		return forPeer
	}
	if got := use(mine, ""); got != "n2:6222" {
		t.Errorf("got for %q, want n2:6222", got)
	}
	use(other, ReasonUsed)
	use(mine, "") // killed before it had the answer
	unknown := claimOf(t, NewToken(nil, token.CA, token.Expires, ""), machine(t))
	use(unknown, ReasonUnknown)
	clock.now = token.Expires.Add(-time.Second)
	use(mine, "")
	clock.now = token.Expires
	use(mine, ReasonExpired)
	use(other, ReasonUsed)
}

func TestLedgerKnowsWhatHasExpired(t *testing.T) {
	t.Parallel()
	l, clock := newLedger(t)
	token := NewToken([]string{"n1:6223"}, sha256.Sum256(nil), clock.now.Add(time.Hour), "")
	if err := l.Add(token); err != nil {
		t.Fatal(err)
	}
	clock.now = clock.now.Add(time.Hour)
	if _, refused, err := l.Use(claimOf(t, token, machine(t))); err != nil || refused == nil || refused.Reason != ReasonExpired {
		t.Errorf("got %+v and %v, want that it expired", refused, err)
	}
	// It is forgotten some day, when another is made.
	clock.now = clock.now.Add(remembered + time.Second)
	if err := l.Add(NewToken(nil, token.CA, clock.now.Add(time.Hour), "")); err != nil {
		t.Fatal(err)
	}
	if _, refused, _ := l.Use(claimOf(t, token, machine(t))); refused == nil || refused.Reason != ReasonUnknown {
		t.Errorf("got %+v, want that it is not known", refused)
	}
}

// TestLedgerGivesNothingAwayThatIsNotOnTheDisk: a token whose use could not be recorded
// was not used.
func TestLedgerGivesNothingAwayThatIsNotOnTheDisk(t *testing.T) {
	t.Parallel()
	l, clock := newLedger(t)
	token := NewToken([]string{"n1:6223"}, sha256.Sum256(nil), clock.now.Add(time.Hour), "")
	if err := l.Add(token); err != nil {
		t.Fatal(err)
	}
	l.Write = func(string, []byte, fs.FileMode) error { return fs.ErrPermission }
	if _, refused, err := l.Use(claimOf(t, token, machine(t))); err == nil || refused != nil {
		t.Errorf("got %+v and %v, want an error", refused, err)
	}
	l.Write = os.WriteFile
	if _, refused, err := l.Use(claimOf(t, token, machine(t))); err != nil || refused != nil {
		t.Errorf("got %+v and %v, want that it works", refused, err)
	}
	if err := os.WriteFile(l.Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Use(claimOf(t, token, machine(t))); diag.CodeOf(err) != diag.CodeClusterToken {
		t.Errorf("got %v, want %s", err, diag.CodeClusterToken)
	}
}

func TestLedgerBoundsWhatIsOpen(t *testing.T) {
	t.Parallel()
	l, clock := newLedger(t)
	for range mostOpen {
		if err := l.Add(NewToken(nil, [sha256.Size]byte{}, clock.now.Add(time.Hour), "")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Add(NewToken(nil, [sha256.Size]byte{}, clock.now.Add(time.Hour), "")); diag.CodeOf(err) != diag.CodeClusterToken {
		t.Errorf("got %v, want %s", err, diag.CodeClusterToken)
	}
	clock.now = clock.now.Add(time.Hour)
	if err := l.Add(NewToken(nil, [sha256.Size]byte{}, clock.now.Add(time.Hour), "")); err != nil {
		t.Error(err)
	}
}
