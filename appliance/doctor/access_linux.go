// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
)

// socketGroup is whose members may use the admin socket.
const socketGroup = "holdfast"

// owner is the user that runs the node: that of the unit, of the running process, of
// the data directory, or whoever asks.
func (m *machine) owner() account {
	if m.service() {
		name := m.unit().values.last("Service/User").value
		if a, ok := m.byName(name); ok || name == "" {
			return a
		}
		return account{name: name, uid: -1}
	}
	if pid := m.lockHolder(); pid != 0 {
		if st, err := statOf(m.at(fmt.Sprintf("/proc/%d", pid))); err == nil {
			return m.byID(int(st.Uid))
		}
	}
	if st, err := statOf(m.dataDir()); err == nil {
		return m.byID(int(st.Uid))
	}
	return m.me()
}

func statOf(path string) (*syscall.Stat_t, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return st, nil
}

// allows reports whether an account has the bits (4 read, 2 write, 1 search) on a file.
func (a account) allows(st *syscall.Stat_t, bits uint32) bool {
	mode := st.Mode & 0o7
	switch {
	case a.uid == 0:
		return true
	case int(st.Uid) == a.uid:
		mode = st.Mode >> 6 & 0o7
	case slices.Contains(a.groups, int(st.Gid)):
		mode = st.Mode >> 3 & 0o7
	}
	return mode&bits == bits
}

// stopped is the file or directory on the way to path that keeps an account from
// reading it, "" when none does.
func (a account) stopped(path string) (string, error) {
	path = absolute(path)
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		st, err := statOf(dir)
		if err != nil {
			return "", err
		}
		if !a.allows(st, 1) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	st, err := statOf(path)
	if err == nil && !a.allows(st, 4) {
		return path, nil
	}
	return "", err
}

// lookAtAccess compares who runs the node with what it must and others may not read.
func lookAtAccess(ctx context.Context, m *machine) report {
	var r report
	a := m.owner()
	if a.uid < 0 {
		r.fail(fmt.Sprintf("the unit runs as %s, and there is no such user in %s", a.name, m.at("/etc/passwd")), "the service can't start",
			m.asRoot("systemd-sysusers holdfast.conf || useradd --system --home-dir /var/lib/holdfast --shell /usr/sbin/nologin "+quote(a.name)))
		return r
	}
	m.lookAtDataDir(ctx, &r, a)
	for _, f := range m.configFiles() {
		m.lookAtConfigFile(&r, a, f)
	}
	for _, f := range m.secretFiles() {
		m.lookAtSecret(&r, a, f)
	}
	m.lookAtSocket(&r)
	text := fmt.Sprintf("the node runs as %s (uid %d)", a.name, a.uid)
	if st, err := statOf(m.dataDir()); err == nil {
		text += fmt.Sprintf(", %s is %s:%s %04o", m.dataDir(), m.byID(int(st.Uid)).name, m.groupName(int(st.Gid)), st.Mode&0o7777)
	}
	me := m.me()
	if id := m.groupID(socketGroup); id >= 0 && me.uid != 0 && me.uid != a.uid && !slices.Contains(me.groups, id) {
		text += fmt.Sprintf("; you (%s) are not in group %s, so that other verbs need sudo", me.name, socketGroup)
	}
	r.measured("%s", text)
	return r
}

func (m *machine) lookAtDataDir(ctx context.Context, r *report, a account) {
	dir := m.dataDir()
	st, err := statOf(dir)
	switch {
	case gone(err) || dir == "":
		return // made at the first start
	case err != nil:
		r.blind(m, "can't look at "+dir)
		return
	}
	give := m.asRoot(fmt.Sprintf("chown -R %s: %s", a.spec(), quote(dir)))
	if int(st.Uid) != a.uid {
		r.fail(fmt.Sprintf("%s belongs to %s, and the node runs as %s", dir, m.byID(int(st.Uid)).name, a.name), "the node does not start", give)
	}
	if mode := st.Mode & 0o7777; mode&0o022 != 0 {
		r.fail(fmt.Sprintf("%s has mode %04o: others may write to it", dir, mode), "whoever writes there has the node's keys and messages; it does not start",
			m.asRoot("chmod go-w "+quote(dir)))
	} else if mode&0o007 != 0 {
		r.warn(fmt.Sprintf("%s has mode %04o: everybody may look into it", dir, mode), "messages are in files below it", m.asRoot("chmod o-rwx "+quote(dir)))
	}
	m.lookBelow(ctx, r, a, give)
}

// lookBelow finds files that a run as another user left, and keys that others can read.
func (m *machine) lookBelow(ctx context.Context, r *report, a account, give string) {
	var foreign, open []string
	secrets := datadir.Secrets(m.dataDir())
	err := filepath.WalkDir(m.dataDir(), func(path string, d fs.DirEntry, err error) error {
		if gone(err) {
			return nil // a node that runs deletes blocks meanwhile
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		info, err := d.Info()
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.ErrUnsupported
		}
		if int(st.Uid) != a.uid && path != m.dataDir() && d.Name() != "lost+found" {
			foreign = append(foreign, path)
		}
		secret := slices.ContainsFunc(secrets, func(s string) bool { return path == s || strings.HasPrefix(path, s+"/") })
		if secret && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 && filepath.Ext(path) != ".crt" {
			open = append(open, path)
		}
		return nil
	})
	if len(foreign) > 0 {
		r.fail(fmt.Sprintf("%s of another owner than %s in %s: %s", count(len(foreign), "file"), a.name, m.dataDir(), some(foreign)),
			"the node can't open them", give)
	}
	if len(open) > 0 {
		words := make([]string, 0, len(open))
		for _, f := range open {
			words = append(words, quote(f))
		}
		r.warn(fmt.Sprintf("others may read %s", some(open)), "whoever has the keys is that user to the node", m.asRoot("chmod go-rwx "+strings.Join(words, " ")))
	}
	if err != nil {
		r.blind(m, "can't look at all of "+m.dataDir())
	}
}

func (m *machine) configFiles() []string {
	if m.in.File == "" {
		return nil
	}
	return config.Files(m.in.File)
}

func (m *machine) lookAtConfigFile(r *report, a account, file string) {
	st, err := statOf(file)
	if gone(err) {
		return // said by config
	}
	if err != nil {
		r.blind(m, "can't look at "+file)
		return
	}
	group := a.spec()
	if len(a.groups) > 0 {
		group = m.groupName(a.groups[0])
	}
	narrow := m.asRoot(fmt.Sprintf("chgrp %s %s && chmod 0640 %s", group, quote(file), quote(file)))
	at, err := a.stopped(file)
	switch {
	case err != nil:
		r.blind(m, "can't look at "+file)
	case at == file:
		r.fail(fmt.Sprintf("%s can't read %s (%s:%s %04o)", a.name, file, m.byID(int(st.Uid)).name, m.groupName(int(st.Gid)), st.Mode&0o7777), "the node does not start", narrow)
	case at != "":
		r.fail(fmt.Sprintf("%s can't get to %s: %s is closed to it", a.name, file, at), "the node does not start",
			m.asRoot(fmt.Sprintf("chgrp %s %s && chmod g+x %s", group, quote(at), quote(at))))
	case st.Mode&0o022 != 0 && m.service():
		r.fail(fmt.Sprintf("%s has mode %04o: others may change it", file, st.Mode&0o7777), "whoever changes it decides who may read the messages", narrow)
	case st.Mode&0o004 != 0 && m.service():
		r.warn(fmt.Sprintf("%s has mode %04o: everybody may read it", file, st.Mode&0o7777), "it says who may do what, and where secrets are", narrow)
	}
}

func (m *machine) secretFiles() []string {
	c := m.in.Config
	all := []string{c.Listen.HTTPToken.Path(), c.Listen.TLS.Key, c.Storage.Encryption.Key.Path(), c.Storage.Encryption.PreviousKey.Path()}
	if c.Cluster != nil {
		all = append(all, c.Cluster.Secret.Path())
	}
	return slices.DeleteFunc(all, func(p string) bool { return p == "" || strings.HasPrefix(p, "/run/credentials/") })
}

func (m *machine) lookAtSecret(r *report, a account, file string) {
	st, err := statOf(file)
	switch {
	case gone(err):
		return // said by config
	case err != nil:
		r.blind(m, "can't look at "+file)
		return
	}
	own := m.asRoot(fmt.Sprintf("chown %s %s && chmod 0600 %s", a.spec(), quote(file), quote(file)))
	if at, err := a.stopped(file); err == nil && at != "" {
		r.fail(fmt.Sprintf("%s can't read the secret %s: stopped at %s", a.name, file, at), "the node does not start", own)
	}
	if st.Mode&0o027 != 0 {
		r.fail(fmt.Sprintf("the secret %s has mode %04o: others may read or change it", file, st.Mode&0o7777), "the node refuses it, and it may be known", own)
	}
}

// lookAtSocket: whoever may connect to it is root of the queue.
func (m *machine) lookAtSocket(r *report) {
	st, err := statOf(m.in.Socket)
	if err != nil || st.Mode&0o007 == 0 {
		return
	}
	r.fail(fmt.Sprintf("the admin socket %s has mode %04o", m.in.Socket, st.Mode&0o7777), "everybody on this machine is an administrator of the queue", m.asRoot("chmod 0660 "+quote(m.in.Socket)))
}
