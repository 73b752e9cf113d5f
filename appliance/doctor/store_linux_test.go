// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
)

func itoa(n int) string { return strconv.Itoa(n) }

// opened makes the data directory a node's.
func (p *patient) opened() {
	p.t.Helper()
	d, err := datadir.Open(p.data, datadir.Options{Version: "1.2.3", AllowUnsafe: true})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		p.t.Fatal(err)
	}
}

func TestStoreOfANewerVersion(t *testing.T) {
	p := newPatient(t, minimal)
	if r := p.isWell("store"); !strings.HasSuffix(r.Evidence, "is new") {
		t.Errorf("got %q, want it to be new", r.Evidence)
	}
	p.opened()
	p.isWell("store")
	stamp := filepath.Join(p.data, "VERSION")
	old, err := os.ReadFile(stamp)
	if err != nil {
		t.Fatal(err)
	}
	p.write(stamp, strings.Replace(string(old), `"format": 1`, `"format": 99`, 1), 0o600)
	f := p.isIll("store", Fail, `was written by version "1.2.3" in format 99, and this version reads up to format 1$`)
	p.isComment(f)
	p.heals("store", f, func() { p.write(stamp, string(old), 0o600) })
}

func TestStoreThatIsNotMounted(t *testing.T) {
	p := newPatient(t, minimal)
	p.opened()
	p.write(filepath.Join(p.data, "STORE"), "", 0o600)
	f := p.isIll("store", Fail, `the message store was in use, and \S+/jetstream is empty or gone$`)
	p.isComment(f)
	p.heals("store", f, func() { p.write(filepath.Join(p.data, "jetstream/A/x"), "", 0o600) })
}

func TestLockHeldByAnother(t *testing.T) {
	needsRoot(t)
	p := newService(t)
	p.isWell("lock")
	holder := start(t, "holdfast", "lock|"+p.data, nil)
	f := p.isIll("lock", Fail, `^process `+itoa(holder.pid)+` \(holdfast\).* has locked \S+, and it is not the service$`)
	p.heals("lock", f)
}

func TestLockOfTheNodeItselfIsWell(t *testing.T) {
	p := newPatient(t, minimal)
	holder := start(t, "holdfast", "lock|"+p.data, nil)
	needs(t, os.Geteuid() == 0, "root")
	if r := p.isWell("lock"); !strings.Contains(r.Evidence, "process "+itoa(holder.pid)) {
		t.Errorf("got %q, want process %d", r.Evidence, holder.pid)
	}
}

// TestAnotherServerOnTheStore is a stock nats-server that somebody pointed there.
func TestAnotherServerOnTheStore(t *testing.T) {
	needsRoot(t)
	p := newPatient(t, minimal)
	other := start(t, "nats-server", "write|"+filepath.Join(p.data, "1.blk"), nil)
	f := p.isIll("lock", Fail, `^process `+itoa(other.pid)+` \(nats-server\).* open for writing`)
	paste(t, f.Fix)
	eventually(t, "the end of the other server", func() bool { return p.look("lock").Verdict == OK })
	start(t, "tar", "read|"+filepath.Join(p.data, "1.blk"), nil)
	p.isWell("lock") // a backup does no harm
}

func beyond(text string) string {
	return strings.Replace(text, `client: "127.0.0.1:0"`, `client: "0.0.0.0:0"`, 1)
}

func (p *patient) auto(now time.Time) {
	p.t.Helper()
	_, err := certs.OpenAuto(certs.Options{Dir: filepath.Join(p.data, "tls"), Write: datadir.WriteFile, Now: func() time.Time { return now }, NodeName: "n"})
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestCertificateOfTheOwnCAHasEnded(t *testing.T) {
	p := newPatient(t, beyond(minimal))
	if r := p.look("certificates"); r.Verdict != Skipped {
		t.Errorf("got %+v, want skipped before the first start", r)
	}
	p.opened()
	p.auto(time.Now())
	if r := p.isWell("certificates"); !strings.HasPrefix(r.Evidence, "396 days left: ") {
		t.Errorf("got %q, want the days that are left", r.Evidence)
	}
	// One that ended an hour ago, of the same CA.
	tlsDir := filepath.Join(p.data, "tls")
	text, err := os.ReadFile(filepath.Join(tlsDir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := tls.X509KeyPair(text, text)
	if err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(tlsDir, "server.pem"), expired(t, ca.Leaf, ca.PrivateKey.(crypto.Signer), time.Now().Add(-time.Hour)), 0o600)
	f := p.isIll("certificates", Fail, `^the server certificate "CN=plant" has expired on \S+, in \S+/server.pem$`)
	p.heals("certificates", f, func() { p.auto(time.Now()) }) // as the node does when it starts
	// And the day before the CA ends.
	p.edit = func(m *machine) { m.now = func() time.Time { return time.Now().AddDate(30, 0, -2) } }
	p.isComment(p.isIll("certificates", Warn, `^the ca certificate .* expires on .*: 1 day left$`))
}

// expired makes a certificate and its key in one text; without a CA it signs itself.
func expired(t *testing.T, ca *x509.Certificate, signer crypto.Signer, end time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "plant"}, DNSNames: []string{"plant"}, NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
	if ca == nil {
		ca, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})) + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestOwnCertificateFiles(t *testing.T) {
	p := newPatient(t, strings.Replace(minimal, "http: \"127.0.0.1:0\"}", "http: \"127.0.0.1:0\", advertise: [plant], tls: {mode: files, cert: my.pem, key: my.pem}}", 1))
	mine := filepath.Join(p.home, "my.pem")
	renew := func() { p.write(mine, expired(t, nil, nil, time.Now().AddDate(0, 6, 0)), 0o600) }
	renew()
	p.isWell("certificates")
	p.write(mine, expired(t, nil, nil, time.Now().Add(-time.Hour)), 0o600)
	f := p.isIll("certificates", Fail, `has expired on`)
	p.isComment(f)
	p.heals("certificates", f, renew)
	p.write(mine, expired(t, nil, nil, time.Now().AddDate(0, 0, 20)), 0o600)
	p.isIll("certificates", Warn, `: 19 days left$`)
	renew()
	if err := os.Chmod(mine, 0o644); err != nil {
		t.Fatal(err)
	}
	p.heals("certificates", p.isIll("certificates", Fail, `private key \S+/my.pem: mode 0644 lets others read or change it$`))
	p.write(p.file, strings.Replace(readText(t, p.file), "advertise: [plant]", "advertise: [plant, elsewhere]", 1), 0o600)
	p.isComment(p.isIll("certificates", Warn, `the certificate is not for elsewhere`))
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
