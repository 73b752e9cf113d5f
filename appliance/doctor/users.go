// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// account is a user of the machine with its groups.
type account struct {
	name   string
	uid    int
	groups []int // the login group first
}

// me is whoever runs the doctor.
func (m *machine) me() account {
	a := m.byID(m.uid)
	if u, err := user.Current(); err == nil && m.uid < 0 { // on Windows, where users have no numbers
		a.name = u.Username
	}
	if m.uid == os.Geteuid() {
		if groups, err := os.Getgroups(); err == nil {
			a.groups = append(a.groups, groups...)
		}
	}
	return a
}

// byID finds a user. One that has no name still has a number.
func (m *machine) byID(uid int) account {
	if a, ok := m.find(func(_ string, id int) bool { return id == uid }); ok {
		return a
	}
	return account{name: fmt.Sprintf("uid %d", uid), uid: uid}
}

func (m *machine) byName(name string) (account, bool) {
	return m.find(func(n string, _ int) bool { return n == name })
}

// find reads the files themselves: they may stand below a root of their own.
func (m *machine) find(is func(name string, uid int) bool) (account, bool) {
	for line := range strings.Lines(m.read("/etc/passwd")) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 {
			continue
		}
		uid, uidErr := strconv.Atoi(f[2])
		gid, gidErr := strconv.Atoi(f[3])
		if uidErr != nil || gidErr != nil || !is(f[0], uid) {
			continue
		}
		a := account{name: f[0], uid: uid, groups: []int{gid}}
		for _, g := range m.groups() {
			if slices.Contains(g.members, a.name) {
				a.groups = append(a.groups, g.gid)
			}
		}
		return a, true
	}
	return account{}, false
}

type group struct {
	name    string
	gid     int
	members []string
}

func (m *machine) groups() []group {
	var all []group
	for line := range strings.Lines(m.read("/etc/group")) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 {
			continue
		}
		if gid, err := strconv.Atoi(f[2]); err == nil {
			all = append(all, group{f[0], gid, strings.Split(f[3], ",")})
		}
	}
	return all
}

func (m *machine) groupName(gid int) string {
	for _, g := range m.groups() {
		if g.gid == gid {
			return g.name
		}
	}
	return strconv.Itoa(gid)
}

// groupID is the number of a group, -1 when there is none.
func (m *machine) groupID(name string) int {
	for _, g := range m.groups() {
		if g.name == name {
			return g.gid
		}
	}
	return -1
}

// spec is the account as chown takes it.
func (a account) spec() string {
	if strings.HasPrefix(a.name, "uid ") {
		return strconv.Itoa(a.uid)
	}
	return a.name
}
