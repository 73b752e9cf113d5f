// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// resolverSync is how often nodes of a cluster compare their account JWTs.
const resolverSync = time.Minute

// Render returns the NATS configuration for s. It is the same text for the same
// settings and holds no private key: those of operator and accounts are not
// among the settings, and an account's JWT is public.
func Render(s Settings) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line("# Made by Holdfast from its own configuration at every start.")
	line("server_name: %s", quote(s.NodeName))
	if len(s.Tags) > 0 {
		quoted := make([]string, len(s.Tags))
		for i, t := range s.Tags {
			quoted[i] = quote(t)
		}
		line("server_tags: [%s]", strings.Join(quoted, ", "))
	}
	if s.Version != "" {
		line("server_metadata: {holdfast: %s}", quote(s.Version))
	}
	// Port 0 would be the server's own default, 4222.
	line("listen: %s", quote(net.JoinHostPort(s.ClientHost, strconv.Itoa(cmp.Or(s.ClientPort, -1)))))

	if s.TLS != nil {
		line("# TLS: on; Holdfast hands its certificates to the server in memory.")
	}
	if c := s.Cluster; c != nil {
		line("# Cluster: %s on %s; Holdfast hands routes, password and certificates to the server in memory.", quote(c.Name), quote(net.JoinHostPort(c.Host, strconv.Itoa(c.Port))))
	}

	renderJetStream(s, line)
	renderIdentity(s, line)
	renderExtras(s.Extra, line)
	return b.String()
}

func renderJetStream(s Settings, line func(string, ...any)) {
	line("")
	line("jetstream {")
	line("    store_dir: %s", quote(s.StoreDir))
	line("    max_file: %d", s.MaxStoreBytes)
	line("    max_mem: %d", s.MaxMemoryBytes)
	if s.SyncAlways {
		line("    sync_interval: always")
	} else {
		line("    sync_interval: %s", quote(s.SyncInterval.String()))
	}
	if s.Domain != "" {
		line("    domain: %s", quote(s.Domain))
	}
	line("}")
}

func renderIdentity(s Settings, line func(string, ...any)) {
	line("")
	line("operator: %s", quote(s.OperatorJWT))
	line("system_account: %s", quote(s.SystemAccount))
	if s.ResolverDir == "" {
		line("resolver: MEMORY")
	} else {
		line("resolver {")
		line("    type: full")
		line("    dir: %s", quote(s.ResolverDir))
		line("    allow_delete: false")
		line("    interval: %s", quote(resolverSync.String()))
		line("}")
	}
	line("resolver_preload {")
	for _, key := range slices.Sorted(maps.Keys(s.Preload)) {
		line("    %s: %s", key, quote(s.Preload[key]))
	}
	line("}")
}

func renderExtras(extra []ExtraKey, line func(string, ...any)) {
	if len(extra) == 0 {
		return
	}
	var lines []string
	for _, k := range extra {
		text, err := renderExtra(k)
		if err != nil {
			// Check and New refuse these settings; the text stays readable.
			text = "# refused: " + printable(err.Error())
		}
		lines = append(lines, text)
	}
	slices.Sort(lines)
	line("")
	line("# From the nats: block.")
	for _, l := range lines {
		line("%s", l)
	}
}

// quote writes a string of the NATS configuration language. Control characters
// are escaped: a line break would end the line in an error message, and the
// lexer takes a zero byte for the end of the file.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
