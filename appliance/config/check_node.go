// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// defaultSyncInterval is storage.sync_interval when the key is not set.
const defaultSyncInterval = Duration(time.Second)

func (c *checker) node() {
	n := c.cfg.Node
	object{c, path{"node"}}.errors(
		rule{strings.ContainsFunc(n.Name, notInNodeName), diag.CodeName, "name", "the name of a node can't contain white space, control or unprintable characters", "use letters, digits, - and _"},
		rule{len(n.Name) > maxName, diag.CodeName, "name", fmt.Sprintf("the name is longer than %d bytes", maxName), "choose a shorter name"},
		rule{n.DataDir == "", diag.CodeRequired, "data_dir", "messages and keys have no place", "write a directory, or remove the line"},
	)
	c.listeners()
	s := c.cfg.Storage
	interval := s.Durability == "interval"
	strict := s.Durability == "strict" && !c.refused(path{"storage", "durability"})
	sync := or(s.SyncInterval, defaultSyncInterval)
	object{c, path{"storage"}}.errors(
		rule{strict && s.SyncInterval != nil, diag.CodeConflict, "sync_interval", "it has no effect with durability " + s.Durability,
			"remove it, or write durability: interval and accept that a power cut loses acknowledged messages"},
		rule{s.SyncInterval != nil && sync == 0, diag.CodeValue, "sync_interval", "0s means every two minutes to the server", "write a time above 0, such as 1s"},
	)
	object{c, path{"storage", "verify"}}.errors(
		rule{s.Verify.Every > 0 && s.Verify.Every < Duration(time.Minute), diag.CodeValue, "every", "a pass reads everything that is stored, and would never rest",
			"write a time of at least 1m, such as 7d, or 0s for never"},
	)
	if interval && sync > 0 {
		c.warn(diag.CodeDurability, path{"storage", "durability"},
			fmt.Sprintf("a power cut loses up to %s of acknowledged messages", sync), "write durability: strict, unless the producers can send again")
	}
}

// notInNodeName is what neither nats-server nor its logs can use in a name.
func notInNodeName(r rune) bool {
	return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar
}

// listener is an address with the key it comes from.
type listener struct {
	key  string
	addr Address
}

func (c *checker) listeners() {
	l := c.cfg.Listen
	o := object{c, path{"listen"}}
	all := []listener{{"client", l.Client}, {"http", l.HTTP}, {"websocket", l.WebSocket}, {"mqtt", l.MQTT}, {"leafnode", l.Leafnode}}
	o.errors(rule{l.Client == "", diag.CodeRequired, "client", "clients have no address to connect to", "write 127.0.0.1:4222"})
	for _, a := range all[:2] {
		o.errors(rule{a.addr != "" && !a.addr.Loopback() && l.TLS.Mode == "off", diag.CodePlainText, a.key,
			string(a.addr) + " is not a loopback address, and listen.tls.mode is off: everybody on the way could read messages and credentials",
			"write tls: {mode: auto}, or listen on 127.0.0.1 or [::1]"})
	}
	c.tls(l.TLS)
	o.errors(rule{l.HTTP != "" && !l.HTTP.Loopback() && !o.isSet("http_token"), diag.CodeRequired, "http",
		"listen.http_token is missing: beyond loopback anyone could read", "add http_token: file:PATH, or listen on 127.0.0.1 or [::1]"})
	for i, a := range all {
		for _, b := range all[:i] {
			o.errors(rule{samePort(a.addr, b.addr) && !c.refused(o.at.with(a.key)) && !c.refused(o.at.with(b.key)), diag.CodeConflict, a.key,
				fmt.Sprintf("the same port as %s", c.ref(o.at.with(b.key))), "choose another port for one of the two"})
		}
	}
}

// tls checks which files go with the mode. What is in them is looked at when
// the node starts.
func (c *checker) tls(t TLS) {
	o := object{c, path{"listen", "tls"}}
	files := t.Mode == "files"
	for _, k := range []struct{ key, value string }{{"cert", t.Cert}, {"key", t.Key}, {"ca", t.CA}} {
		o.errors(rule{!files && k.value != "", diag.CodeConflict, k.key, "it has no effect with mode " + t.Mode, "write mode: files, or remove it"})
	}
	o.errors(
		rule{files && t.Cert == "" && !o.isSet("cert"), diag.CodeRequired, "mode", "mode files needs cert", "add cert: PATH, or write mode: auto"},
		rule{files && t.Key == "" && !o.isSet("key"), diag.CodeRequired, "mode", "mode files needs key", "add key: PATH, or write mode: auto"},
		rule{!files && t.Verify, diag.CodeConflict, "verify", "it has no effect with mode " + t.Mode, "write mode: files with the CA of the clients' certificates, or remove it"},
		rule{files && t.Verify && t.CA == "" && !o.isSet("ca"), diag.CodeRequired, "verify", "clients' certificates can't be checked without a ca", "add ca: PATH"},
	)
}

// samePort reports whether two listeners can't both have their port.
func samePort(a, b Address) bool {
	hostA, portA := a.Split()
	hostB, portB := b.Split()
	if portA == 0 || portA != portB {
		return false
	}
	anyHost := func(h string) bool {
		ip := net.ParseIP(h)
		return h == "localhost" || ip != nil && ip.IsUnspecified()
	}
	return hostA == hostB || anyHost(hostA) || anyHost(hostB)
}

// secrets reads the file behind every secret that is set, and forgets it.
func (c *checker) secrets() {
	type named struct {
		at path
		s  Secret
	}
	enc := c.cfg.Storage.Encryption
	all := []named{
		{path{"listen", "http_token"}, c.cfg.Listen.HTTPToken},
		{path{"storage", "encryption", "key"}, enc.Key},
		{path{"storage", "encryption", "previous_key"}, enc.PreviousKey},
	}
	if c.cfg.Cluster != nil {
		all = append(all, named{path{"cluster", "secret"}, c.cfg.Cluster.Secret})
	}
	for _, n := range all {
		text, err := n.s.Reveal()
		switch {
		case err != nil:
			c.fail(diag.CodeSecretFile, n.at, err.Error(), diag.Hint(err))
		case n.at[0] == "cluster" && text != "" && len(text) < shortestSecret:
			c.fail(diag.CodeSecretFile, n.at, fmt.Sprintf("the secret in %s has %d characters, which can be guessed", n.s.Path(), len(text)),
				fmt.Sprintf("write %d or more into it, on every node: `openssl rand -hex 32`", shortestSecret))
		}
	}
	c.encryption()
}

const (
	// leastKey is how long a key for stored messages is at least, in bytes, and
	// leastDifferent how many different ones are in it.
	leastKey       = 32
	leastDifferent = 8
)

func (c *checker) encryption() {
	enc := c.cfg.Storage.Encryption
	at := path{"storage", "encryption"}
	object{c, at}.errors(
		rule{enc.Cipher != "" && !enc.Key.IsSet() && !enc.PreviousKey.IsSet(), diag.CodeRequired, "cipher", "without a key nothing is encrypted", "set key to file:PATH, or remove the line"},
		rule{enc.Key.IsSet() && enc.Key.Path() == enc.PreviousKey.Path(), diag.CodeConflict, "previous_key", "it is the same file as key", "keep the key before in a file of its own, or remove the line"},
	)
	if c.cfg.Cluster != nil && (enc.Key.IsSet() || enc.PreviousKey.IsSet()) {
		c.fail(diag.CodeConflict, at, "a node of a cluster keeps logs of the cluster, too, and this version does not change their keys",
			"remove it and encrypt the volume, or remove cluster")
	}
	if enc.PreviousKey.IsSet() && !enc.Key.IsSet() {
		c.warn(diag.CodeDecrypts, at.with("previous_key"), "without a key beside it the store is decrypted at the next start, and messages are stored in plain text",
			"set key, unless that is what you want")
	}
	text, err := enc.Key.Reveal()
	if err != nil || !enc.Key.IsSet() {
		return // said already
	}
	if why := weak(text); why != "" {
		c.fail(diag.CodeSecretFile, at.with("key"), fmt.Sprintf("the key in %s %s", enc.Key.Path(), why),
			fmt.Sprintf("make one that nobody can guess: (umask 077; head -c 32 /dev/urandom | base64 > %s)", enc.Key.Path()))
	}
}

// weak says why a key can be guessed; "" when it can't, as far as its looks tell.
func weak(key string) string {
	if len(key) < leastKey {
		return fmt.Sprintf("is shorter than %d characters", leastKey)
	}
	different := map[rune]bool{}
	for _, r := range key {
		different[r] = true
	}
	if len(different) < leastDifferent {
		return fmt.Sprintf("has only %d different characters", len(different))
	}
	return ""
}
