// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// owned is a service whose files belong to whom they should.
func owned(t *testing.T) *patient {
	t.Helper()
	needsRoot(t)
	p := newService(t)
	p.opened()
	mustRun(t, "chown", "-R", "4242:4242", p.data)
	mustRun(t, "chown", "0:4242", p.file)
	for dir := p.root; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The machine has no such user, and chown takes names.
	stub(t, "chown", `exec /bin/chown $(echo "$@" | sed 's/holdfast:/4242:4242/; s/holdfast /4242:4242 /')`)
	stub(t, "chgrp", `exec /bin/chgrp $(echo "$@" | sed 's/^holdfast /4242 /')`)
	p.isWell("access")
	return p
}

func TestUserOfTheUnitThatDoesNotExist(t *testing.T) {
	p := owned(t)
	passwd := filepath.Join(p.root, "etc/passwd")
	whole := readText(t, passwd)
	p.write(passwd, "root:x:0:0::/root:/bin/sh\n", 0o644)
	stub(t, "systemd-sysusers", `[ "$*" = holdfast.conf ] && printf '`+strings.ReplaceAll(whole, "\n", `\n`)+`' >`+passwd)
	p.heals("access", p.isIll("access", Fail, `^the unit runs as holdfast, and there is no such user`))
}

func TestDataDirOfAnotherUser(t *testing.T) {
	p := owned(t)
	mustRun(t, "/bin/chown", "0:0", p.data)
	p.heals("access", p.isIll("access", Fail, `/holdfast belongs to root, and the node runs as holdfast$`))
}

// TestFilesThatARunAsRootLeft is what `sudo holdfast run` once did.
func TestFilesThatARunAsRootLeft(t *testing.T) {
	p := owned(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		p.write(filepath.Join(p.data, "jetstream/A", name), "", 0o600)
	}
	mustRun(t, "/bin/chown", "4242:4242", filepath.Join(p.data, "jetstream"), filepath.Join(p.data, "jetstream/A"))
	p.heals("access", p.isIll("access", Fail, `^4 files of another owner than holdfast in \S+: \S+/a, \S+/b, \S+/c and 1 more$`))
}

func TestDataDirThatOthersMayWriteTo(t *testing.T) {
	p := owned(t)
	mustRun(t, "chmod", "0770", p.data)
	p.heals("access", p.isIll("access", Fail, `has mode 0770: others may write to it$`))
	mustRun(t, "chmod", "0755", p.data)
	p.heals("access", p.isIll("access", Warn, `has mode 0755: everybody may look into it$`))
}

func TestKeysThatOthersMayRead(t *testing.T) {
	p := owned(t)
	for _, name := range []string{"identity.json", "creds/shop-a.creds", "tls/server.pem", "tls/ca.crt"} {
		p.write(filepath.Join(p.data, name), "", 0o644)
	}
	mustRun(t, "/bin/chown", "-R", "4242:4242", p.data)
	f := p.isIll("access", Warn, `^others may read \S+/creds/shop-a.creds, \S+/identity.json, \S+/tls/server.pem$`)
	p.heals("access", f)
	if info, err := os.Stat(filepath.Join(p.data, "tls/ca.crt")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("got %v, %v, want the CA's certificate left to everybody", info, err)
	}
}

func TestConfigThatTheServiceCantRead(t *testing.T) {
	p := owned(t)
	mustRun(t, "/bin/chown", "0:0", p.file)
	p.heals("access", p.isIll("access", Fail, `^holdfast can't read \S+/holdfast.yaml \(root:root 0640\)$`))
	p.write(filepath.Join(p.root, "etc/holdfast/holdfast.d/10.yaml"), "", 0o600)
	p.heals("access", p.isIll("access", Fail, `^holdfast can't read \S+/holdfast.d/10.yaml`))
	mustRun(t, "chmod", "0700", filepath.Dir(p.file))
	p.heals("access", p.isIll("access", Fail, `^holdfast can't get to \S+/holdfast.yaml: \S+/etc/holdfast is closed to it$`))
}

func TestConfigThatOthersMayReadOrChange(t *testing.T) {
	p := owned(t)
	mustRun(t, "chmod", "0644", p.file)
	p.heals("access", p.isIll("access", Warn, `has mode 0644: everybody may read it$`))
	mustRun(t, "chmod", "0660", p.file)
	p.heals("access", p.isIll("access", Fail, `has mode 0660: others may change it$`))
}

func TestSecretThatIsNone(t *testing.T) {
	p := owned(t)
	secret := filepath.Join(p.root, "etc/holdfast/token")
	p.write(secret, "0123456789", 0o600)
	p.write(p.file, strings.Replace(readText(t, p.file), `http: "127.0.0.1:0"`, `http: "127.0.0.1:0", http_token: "file:`+secret+`"`, 1), 0o640)
	p.heals("access", p.isIll("access", Fail, `^holdfast can't read the secret \S+/token`))
	mustRun(t, "chmod", "0604", secret)
	p.heals("access", p.isIll("access", Fail, `^the secret \S+/token has mode 0604`))
}

func TestAdminSocketForEverybody(t *testing.T) {
	p := newPatient(t, minimal)
	t.Chdir(p.data)
	l, err := net.Listen("unix", "admin.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mustRun(t, "chmod", "0660", "admin.sock")
	p.isWell("access")
	mustRun(t, "chmod", "0666", "admin.sock")
	p.heals("access", p.isIll("access", Fail, `^the admin socket \S+ has mode 0666$`))
}
