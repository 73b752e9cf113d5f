// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// openSesame is a secret that must not be found anywhere.
const openSesame = "canary-8f2e61c07d5b4a39"

// beyond makes a node listen on every interface, with a token for HTTP.
func beyond(t *testing.T, config string) string {
	t.Helper()
	return replaced(t, config, `listen: {client: "127.0.0.1:0", http: "127.0.0.1:0"}`,
		`listen: {client: "0.0.0.0:0", http: "0.0.0.0:0", http_token: "file:token", advertise: [localhost, queue.example]}`)
}

func newNodeBeyond(t *testing.T) *node {
	t.Helper()
	n := newNode(t, beyond(t, who))
	n.write("token", []byte(openSesame+"\n"))
	return n
}

func (n *node) write(name string, data []byte) string {
	n.t.Helper()
	path := filepath.Join(n.home, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// port is the port of a listener that is on every interface.
func (n *node) port(listener string) string {
	n.t.Helper()
	_, port, err := net.SplitHostPort(n.address(listener))
	if err != nil {
		n.t.Fatal(err)
	}
	return port
}

// handedOutCA writes what `holdfast ca` prints to a file.
func (n *node) handedOutCA() string {
	n.t.Helper()
	code, ca, errs := n.secretly("ca")
	if code != exitOK || strings.Contains(ca, "PRIVATE") {
		n.t.Fatalf("ca: got exit code %d, %q, want a certificate only", code, errs)
	}
	return n.write("handed-out.crt", []byte(ca))
}

func fingerprints(t *testing.T, s admin.Status) []string {
	t.Helper()
	var out []string
	for _, c := range s.Certificates {
		if c.NotAfter.Before(time.Now().Add(24*time.Hour)) || c.Path == "" {
			t.Errorf("got certificate %+v, want its end and its file", c)
		}
		out = append(out, c.Name+" "+c.Fingerprint)
	}
	return out
}

func TestProcessEncryptsBeyondLoopback(t *testing.T) {
	t.Parallel()
	n := newNodeBeyond(t).start()
	ca := n.handedOutCA()
	l := n.loginOf("checkout")
	if want := "tls://localhost:" + n.port("client"); l.URL != want || l.CA != string(read(t, ca)) {
		t.Errorf("got url %q and a CA of %d bytes, want %q and what `holdfast ca` prints", l.URL, len(l.CA), want)
	}
	file := n.kept("checkout")
	for _, host := range []string{"localhost", "127.0.0.1"} {
		c := n.mustLogin("checkout", file, nats.RootCAs(ca), func(o *nats.Options) error { o.Url = "tls://" + host + ":" + n.port("client"); return nil })
		publish(t, c.js, "orders.a", "over TLS")
	}
	// Somebody else's CA, none, and somebody else's name.
	other := n.write("other.crt", newCA(t).pem)
	for name, o := range map[string][]nats.Option{
		"no CA":          {nats.RootCAs(other), nats.NoReconnect()},
		"another name":   {nats.RootCAs(ca), nats.NoReconnect(), nats.Secure(&tls.Config{ServerName: "evil.example"})},
		"the system's":   {nats.NoReconnect()},
		"without Secure": {nats.NoReconnect(), func(o *nats.Options) error { o.Url = "nats://127.0.0.1:" + n.port("client"); return nil }},
	} {
		if _, err := n.login("checkout", file, o...); err == nil || !strings.Contains(err.Error(), "x509") {
			t.Errorf("%s: got %v, want the certificate refused", name, err)
		}
	}
	n.checkTool()
	s, err := n.status()
	if err != nil {
		t.Fatal(err)
	}
	before := fingerprints(t, s)
	if len(before) != 2 {
		t.Errorf("got certificates %q, want the server's and the CA's", before)
	}
	n.kill9()
	n.start()
	if s, err = n.status(); err != nil || fmt.Sprint(fingerprints(t, s)) != fmt.Sprint(before) {
		t.Errorf("got %q after a restart, %v, want %q", fingerprints(t, s), err, before)
	}
	n.mustLogin("checkout", file, nats.RootCAs(ca))
}

// checkTool uses the nats tool, which must leave nothing behind, not even when it
// is interrupted.
func (n *node) checkTool() {
	n.t.Helper()
	tmp := n.t.TempDir()
	n.env = append(n.env, "TMPDIR="+tmp)
	n.nats([]string{"ORDERS"}, "stream", "ls")
	n.nats([]string{"Published"}, "--user", "checkout", "pub", "orders.a", "by the tool")
	// Several times, and each as soon as the file is there: the tool is interrupted
	// at its start, too.
	for i := range 6 {
		s := []os.Signal{os.Interrupt, syscall.SIGTERM}[i%2]
		cmd := n.command("nats", "--config", "holdfast.yaml", "sub", "quiet.>")
		if err := cmd.Start(); err != nil {
			n.t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); ; runtime.Gosched() {
			left, err := os.ReadDir(tmp)
			if len(left) > 0 {
				break
			}
			if time.Now().After(deadline) {
				n.t.Fatalf("got no file with the CA, %v, want one while the tool runs", err)
			}
		}
		if err := cmd.Process.Signal(s); err != nil {
			n.t.Fatal(err)
		}
		_ = cmd.Wait() // how it ends is the tool's own
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		n.t.Errorf("got %v, %v left behind, want nothing", left, err)
	}
}

func TestProcessHTTPBeyondLoopbackNeedsTLSTokenAndHost(t *testing.T) {
	t.Parallel()
	n := newNodeBeyond(t).start()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read(t, n.handedOutCA()))
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(tr.CloseIdleConnections)
	for _, c := range []struct {
		method, path, host, token string
		want                      int
	}{
		{"GET", "/metrics", "", openSesame, 200},
		{"GET", "/varz", "", openSesame, 200},
		{"GET", "/readyz", "queue.example", openSesame, 200},
		{"HEAD", "/livez", "", "", 200},
		{"GET", "/readyz", "", "", 401},
		{"GET", "/metrics", "", openSesame + "x", 401},
		{"GET", "/metrics", "evil.example", openSesame, 421},
		{"POST", "/metrics", "", openSesame, 405},
		{"OPTIONS", "/metrics", "", openSesame, 405},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "https://localhost:"+n.port("http")+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		req.Header.Set("Origin", "https://evil.example")
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.want {
			t.Errorf("%s %s as %q: got %d, %v, want %d", c.method, c.path, c.host, resp.StatusCode, err, c.want)
		}
		for h := range resp.Header {
			if strings.HasPrefix(h, "Access-Control-") {
				t.Errorf("%s %s: got header %s, want no CORS", c.method, c.path, h)
			}
		}
		if strings.Contains(string(body), openSesame) {
			t.Errorf("%s %s: got the token in the answer, want it nowhere", c.method, c.path)
		}
	}
	if resp, err := http.Get("http://localhost:" + n.port("http") + "/livez"); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d without TLS, want 400", resp.StatusCode)
		}
	}
	n.stop()
}

func TestProcessRefusesPlainTextBeyondLoopback(t *testing.T) {
	t.Parallel()
	n := newNode(t, who)
	n.write("token", []byte(openSesame))
	for listen, want := range map[string]string{
		`{client: "0.0.0.0:0", tls: {mode: off}}`:                                                "HF1109",
		`{client: "127.0.0.1:0", http: "0.0.0.0:0", http_token: "file:token", tls: {mode: off}}`: "HF1109",
		`{client: "127.0.0.1:0", http: "0.0.0.0:0"}`:                                             "listen.http_token is missing",
	} {
		n.configure(replaced(t, who, `{client: "127.0.0.1:0", http: "127.0.0.1:0"}`, listen))
		if code, out := n.holdfast("check", "holdfast.yaml"); code != exitPermanent || !strings.Contains(out, want) || !strings.Contains(out, "fix:") {
			t.Errorf("check of %s: got exit code %d and %q, want 78 and %q", listen, code, out, want)
		}
		n.refuses(exitPermanent, want)
	}
	if _, err := os.Stat(n.data); !os.IsNotExist(err) {
		t.Errorf("got %v for the data directory, want nothing made", err)
	}
}

// ca is a certificate authority that is not Holdfast's.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newCA(t *testing.T) ca {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "works CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	c := ca{cert: template}
	c.pem, _ = c.issue(t, template)
	return c
}

// issue returns a certificate and its key, in PEM.
func (c *ca) issue(t *testing.T, template *x509.Certificate) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if template == c.cert {
		c.key = k
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, k.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

func (c *ca) leaf(t *testing.T, serial int64, usage x509.ExtKeyUsage) (cert, key []byte) {
	t.Helper()
	return c.issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "leaf"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(120 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	})
}

func TestProcessTakesOwnCertificatesAndAsksClientsForTheirs(t *testing.T) {
	t.Parallel()
	mutual := `tls: {mode: files, cert: server.crt, key: server.key, ca: works.crt, verify: true}`
	n := newNode(t, replaced(t, who, `http: "127.0.0.1:0"`, `http: "127.0.0.1:0", `+mutual))
	works := newCA(t)
	root := n.write("works.crt", works.pem)
	cert, key := works.leaf(t, 2, x509.ExtKeyUsageServerAuth)
	n.write("server.crt", cert)
	n.write("server.key", key)
	cert, key = works.leaf(t, 3, x509.ExtKeyUsageClientAuth)
	mine := nats.ClientCert(n.write("client.crt", cert), n.write("client.key", key))
	strange := newCA(t)
	cert, key = strange.leaf(t, 4, x509.ExtKeyUsageClientAuth)
	theirs := nats.ClientCert(n.write("strange.crt", cert), n.write("strange.key", key))

	n.start()
	if n.handedOutCA() == "" || n.loginOf("boss").CA != string(works.pem) {
		t.Error("got another CA, want that of the file")
	}
	file := n.kept("boss")
	n.mustLogin("boss", file, nats.RootCAs(root), mine)
	for name, o := range map[string][]nats.Option{"without a certificate": {}, "with a stranger's": {theirs}} {
		if _, err := n.login("boss", file, append(o, nats.RootCAs(root), nats.NoReconnect())...); err == nil || !strings.Contains(err.Error(), "tls") {
			t.Errorf("%s: got %v, want the handshake refused", name, err)
		}
	}
	n.nats([]string{"ORDERS"}, "stream", "ls", "--tlscert", "client.crt", "--tlskey", "client.key")
	if code, out := n.holdfast("nats", "--config", "holdfast.yaml", "stream", "ls"); code == exitOK {
		t.Errorf("got %q from the tool without a certificate, want it refused", out)
	}
	n.refusedFor("tls", "", 3)

	n.kill9()
	n.configure(replaced(t, who, `http: "127.0.0.1:0"`, `http: "127.0.0.1:0", `+replaced(t, mutual, ", verify: true", "")))
	n.start()
	n.mustLogin("boss", file, nats.RootCAs(root))
	n.mustLogin("boss", file, nats.RootCAs(root), theirs)
}
