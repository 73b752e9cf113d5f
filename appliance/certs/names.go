// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// subjects is what a certificate is for: normalised, sorted, each once.
type subjects struct {
	dns []string
	ips []net.IP
	bad []string // what can't stand in a certificate
}

// subjectsOf adds loopback to names, which may repeat and may be empty. An
// address that means every interface is left out, because no client dials it.
func subjectsOf(names []string) subjects {
	var s subjects
	ips := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	s.dns = []string{"localhost"}
	for _, raw := range names {
		name := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(raw), "."))
		ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
		switch {
		case name == "":
		case err == nil && ip.IsUnspecified():
		case err == nil:
			ips = append(ips, ip.Unmap().WithZone(""))
		case isDNSName(name):
			s.dns = append(s.dns, name)
		default:
			s.bad = append(s.bad, raw)
		}
	}
	slices.Sort(s.dns)
	s.dns = slices.Compact(s.dns)
	slices.SortFunc(ips, netip.Addr.Compare)
	for _, ip := range slices.Compact(ips) {
		s.ips = append(s.ips, ip.AsSlice())
	}
	return s
}

// isDNSName takes what crypto/x509 verifies: also underscores, which hosts have,
// and a wildcard as the first label.
func isDNSName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for i, label := range strings.Split(name, ".") {
		if label == "*" && i == 0 && strings.Contains(name, ".") {
			continue
		}
		if label == "" || len(label) > 63 || label[0] == '-' || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// names is for people and for comparing.
func (s subjects) names() []string {
	out := slices.Clone(s.dns)
	for _, ip := range s.ips {
		out = append(out, ip.String())
	}
	return out
}

func namesIn(c *x509.Certificate) []string {
	return subjects{dns: c.DNSNames, ips: c.IPAddresses}.names()
}

// uncovered is the names for which clients refuse the certificate. Loopback is
// not asked for: a certificate from elsewhere has no reason to have it.
func uncovered(c *x509.Certificate, names []string) []string {
	var out []string
	for _, name := range names {
		// An address that means every interface asks for nothing, nor does "".
		s := subjectsOf([]string{name})
		if len(s.names()) == len(subjectsOf(nil).names()) {
			continue
		}
		if c.VerifyHostname(strings.Trim(strings.TrimSuffix(name, "."), "[]")) != nil {
			out = append(out, name)
		}
	}
	return out
}
