// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// LogDir is where the service has its log files.
func LogDir() string { return filepath.Join(programData(), "Holdfast", "logs") }

func programData() string {
	dir, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return `C:\ProgramData`
	}
	return dir
}

// Prepare does what a registered service needs besides: its directories, closed to
// ordinary users; a starter configuration, where there is none; and how the service
// manager restarts and stops it. The MSI and `service install` both call it.
func Prepare(s Setup) (done []string, err error) {
	if err := refuseExposed(s.Binary, diag.CodePlace, "install it below C:\\Program Files, or another directory that only administrators can change"); err != nil {
		return done, err
	}
	base := filepath.Join(programData(), "Holdfast")
	for _, d := range []struct{ path, sddl string }{
		{base, acl.Config()},
		{filepath.Join(base, "holdfast.d"), acl.Config()},
		{filepath.Join(base, "data"), acl.State()},
		{LogDir(), acl.State()},
	} {
		made, err := closeDir(d.path, d.sddl)
		if err != nil {
			return done, err
		}
		if made {
			done = append(done, "made "+d.path)
		}
	}
	if made, err := writeStarter(s); err != nil {
		return done, err
	} else if made {
		done = append(done, "wrote the starter configuration "+s.Config)
	}
	return done, settle(s)
}

// closeDir makes a directory that ordinary users can't write. One that somebody else
// made before, in a place where everybody may, is not taken over: what is in it is theirs.
func closeDir(path, sddl string) (made bool, err error) {
	err = acl.Mkdir(path, sddl)
	switch {
	case err == nil:
		made = true
	case !errors.Is(err, fs.ErrExist):
		return false, fmt.Errorf("make directory: %w", err)
	default:
		who, err := acl.DirWriters(path)
		switch {
		case err != nil:
			return false, err
		case len(who) > 0:
			return false, exposed(path, who, diag.CodeAccess, "look at what is in it, and move away what is not yours; then "+acl.Closing(path, true, acl.Full))
		}
	}
	return made, acl.Set(path, sddl)
}

func writeStarter(s Setup) (made bool, err error) {
	f, err := os.OpenFile(s.Config, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("write the starter configuration: %w", err)
	}
	_, err = f.Write(s.Starter)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, errors.Join(fmt.Errorf("write the starter configuration: %w", err), os.Remove(s.Config))
	}
	return true, nil
}

// settle sets what kardianos/service has no words for, and Windows Installer neither.
func settle(s Setup) error {
	h, err := open(windows.SERVICE_ALL_ACCESS)
	if err != nil {
		return fmt.Errorf("open the service: %w", err)
	}
	defer func() { _ = h.Close() }()
	again := func(d time.Duration) mgr.RecoveryAction {
		return mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: d}
	}
	err = errors.Join(
		h.SetRecoveryActions([]mgr.RecoveryAction{again(5 * time.Second), again(5 * time.Second), again(30 * time.Second)}, uint32((24*time.Hour).Seconds())),
		setPath(h, s),
		delay(h),
		setPreshutdown(h, preshutdown))
	if err != nil {
		return diag.Fail(diag.CodeService, fmt.Errorf("set how the service is restarted and stopped: %w", err), "correct that, then run this again")
	}
	return nil
}

// setPath has the program in quotes, whoever has registered it: without them Windows would
// try C:\Program.exe first.
func setPath(h *mgr.Service, s Setup) error {
	c, err := configOf(h)
	if err != nil || c.path == imagePath(definition(s)) {
		return err
	}
	path, err := windows.UTF16PtrFromString(imagePath(definition(s)))
	if err != nil {
		return err
	}
	return windows.ChangeServiceConfig(h.Handle, windows.SERVICE_NO_CHANGE, windows.SERVICE_NO_CHANGE, windows.SERVICE_NO_CHANGE,
		path, nil, nil, nil, nil, nil, nil)
}

// delay starts the service after those that a boot waits for.
func delay(h *mgr.Service) error {
	type info struct{ delayed uint32 }
	i := info{1}
	return windows.ChangeServiceConfig2(h.Handle, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, (*byte)(unsafe.Pointer(&i)))
}

// setPreshutdown is how long a shutdown of Windows waits for the service: 10 seconds
// otherwise, which a node with many consumers can't keep.
func setPreshutdown(h *mgr.Service, limit time.Duration) error {
	type info struct{ ms uint32 }
	i := info{ms(limit)}
	return windows.ChangeServiceConfig2(h.Handle, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO, (*byte)(unsafe.Pointer(&i)))
}

// Farewell leaves word of what an uninstall keeps, where whoever finds it looks.
func Farewell() error {
	base := filepath.Join(programData(), "Holdfast")
	// This runs as the system: nothing is written where others decide what that is.
	if who, err := acl.DirWriters(base); err != nil || len(who) > 0 {
		return nil //nolint:nilerr // there is nothing to tell, or nobody to tell it to
	}
	text := "Holdfast was uninstalled, and kept what is here: the configuration, and in data the\r\n" +
		"messages and keys. Installed again, it goes on with all of them. To destroy them:\r\n\r\n" +
		"    rmdir /s \"" + base + "\"\r\n"
	TellEvent("uninstalled; messages, keys and configuration are kept in "+base, false)
	return os.WriteFile(filepath.Join(base, "KEPT.txt"), []byte(text), 0o600)
}

// CheckConfig refuses configuration files that ordinary users can change: they would
// be the ones who say what the service does.
func CheckConfig(files []string) error {
	for _, f := range files {
		where, who, err := acl.Exposed(f)
		switch {
		case gone(err): // said by who reads it
		case err != nil:
			return err
		case len(who) > 0:
			info, err := os.Stat(where)
			return exposed(where, who, diag.CodeAccess, acl.Closing(where, err == nil && info.IsDir(), acl.Read, acl.Account))
		}
	}
	return nil
}

func refuseExposed(path string, code diag.Code, fix string) error {
	where, who, err := acl.Exposed(path)
	switch {
	case gone(err):
		return nil // said by who reads it
	case err != nil:
		return err
	case len(who) > 0:
		return exposed(where, who, code, fix)
	}
	return nil
}

func exposed(path string, who []string, code diag.Code, fix string) error {
	return diag.FailPermanently(code, fmt.Errorf("%s can be changed by %s, and so the service by them", path, strings.Join(who, ", ")), fix)
}
