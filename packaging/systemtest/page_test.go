// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is docs/install.md: its blocks of commands by section, in order.
func page(t *testing.T, language string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(body, -1) {
			blocks[name] = append(blocks[name], m[1])
		}
	}
	return blocks
}

// follow runs commands of the page as somebody who types them: the first that
// fails ends it.
func (c *container) follow(block string) string {
	c.t.Helper()
	c.answer()
	// Debian's rpm has a database without a package in it.
	block = strings.ReplaceAll(block, "rpm --upgrade ", "rpm --upgrade --nodeps ")
	return c.run("set -e; cd /root; " + block)
}

// answer makes commands for people run by themselves.
func (c *container) answer() {
	c.t.Helper()
	// What sudo is for is given: the shell is root's.
	c.write("/usr/local/bin/sudo", "#!/bin/sh\nexec env \"$@\"\n")
	c.run("chmod 755 /usr/local/bin/sudo")
	c.write("/etc/apt/apt.conf.d/answer", "APT::Get::Assume-Yes \"true\";\n")
}

// steps takes the blocks of a section, as many as there have to be.
func steps(t *testing.T, section string, n int) []string {
	t.Helper()
	blocks := page(t, "sh")[section]
	if len(blocks) != n {
		t.Fatalf("got %d blocks of commands in section %q, want %d", len(blocks), section, n)
	}
	return blocks
}

// TestInstallPage does what docs/install.md says, from the first command to the last.
func TestInstallPage(t *testing.T) {
	for _, p := range []struct {
		section, extension string
		system             func() (string, error)
	}{
		{"Debian, Ubuntu", ".deb", debian},
		{"RHEL, Fedora, SUSE", ".rpm", debianWithRPM},
		{"Any Linux with systemd", ".tar.gz", debian},
	} {
		t.Run(p.extension, func(t *testing.T) {
			t.Parallel()
			blocks := steps(t, p.section, 4)
			c := boot(t, p.system)
			file := c.put(built(t, older, p.extension))
			c.wantSaid(c.follow(blocks[0]), "Stored in Stream: JOBS", "first-job", "Acknowledged message")
			c.wantService(older)
			c.follow(steps(t, "First steps", 1)[0])
			js, acked := c.wantQueue(), acks{}
			publishSome(t, js, &acked, 20)

			c.run("rm -r " + file + "; rm -rf /root/holdfast_*")
			file = c.put(built(t, newer, p.extension))
			if p.extension == ".tar.gz" {
				c.run("cd /root; tar --extract --file " + file)
			}
			c.follow(blocks[1])
			c.wantService(newer)
			wantAll(t, js, &acked)

			c.follow(blocks[2])
			c.wantGone()
			c.want(true, data+"/jetstream")
			c.follow(blocks[3])
			c.want(false, data, "/etc/holdfast", "/usr/bin/holdfast", "/usr/local/bin/holdfast", "/etc/default/holdfast")
		})
	}
}

func TestInstallPageFromSource(t *testing.T) {
	t.Parallel()
	commands, found := strings.CutPrefix(steps(t, "From source", 1)[0], "make build\n")
	if !found {
		t.Fatal("got another first command, want make build")
	}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil || !strings.Contains(string(makefile), "BIN      := bin/holdfast\n") {
		t.Fatalf("got a Makefile (%v) that does not build bin/holdfast, as the page has it", err)
	}
	c := boot(t, debian)
	c.run("cd /root; tar --extract --file " + c.put(built(t, older, ".tar.gz")) + "; mv holdfast_*/ bin")
	c.follow(commands)
	c.wantService(older)
}

// TestInstallPageImage builds what the page's Dockerfile says, and runs it
// without systemd.
func TestInstallPageImage(t *testing.T) {
	t.Parallel()
	blocks := page(t, "dockerfile")["Containers"]
	if len(blocks) != 1 {
		t.Fatalf("got %d images on the page, want one", len(blocks))
	}
	c := unpack(t, debian)
	user, entry := "root", []string(nil)
	for line := range strings.Lines(blocks[0]) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "COPY":
			c.put(built(t, older, ".deb"))
		case "RUN":
			if r := c.do("chroot", c.root, "sh", "-c", rest); r.code != 0 {
				t.Fatalf("%s: got exit code %d:\n%s%s", rest, r.code, r.out, r.err)
			}
		case "USER":
			user = rest
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(rest), &entry); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.runAsImage(user, entry)
}
