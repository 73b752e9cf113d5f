// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	kardianos "github.com/kardianos/service"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const name = "holdfast"

// installerKey is what the MSI leaves in the registry.
const installerKey = `SOFTWARE\Holdfast`

// Install makes Holdfast a service that starts at boot, and starts it. What is so
// already is left as it is.
func Install(ctx context.Context, s Setup) (Outcome, error) {
	out := Outcome{Done: []string{}, Notes: []string{}}
	if err := needElevation("install the service", name+" service install"); err != nil {
		return out, err
	}
	if at := installedByMSI(); at != "" {
		return out, diag.Fail(diag.CodePackaged, fmt.Errorf("install the service: the MSI has installed it, with %s", at), "use that one, or uninstall Holdfast under Apps first")
	}
	if err := refuseExposed(s.Binary, diag.CodePlace, "copy it to C:\\Program Files\\Holdfast, and run it from there"); err != nil {
		return out, err
	}
	if present(s.Config) && s.Check != nil {
		if err := s.Check(); err != nil {
			return out, err
		}
	}
	// The service first: its account exists only with it.
	registered, err := register(s)
	if err != nil {
		return out, err
	}
	out.Outcome = map[change]string{added: "installed", altered: "updated", none: "already installed"}[registered]
	if registered != none {
		out.Done = append(out.Done, "registered the service "+acl.Service+", which runs as "+acl.Account)
	}
	done, err := Prepare(s)
	if out.Done = append(out.Done, done...); err != nil {
		return out, err
	}
	if registered == altered {
		out.Notes = append(out.Notes, "what was changed counts from the next start: "+name+" service restart")
	}
	if s.NoStart {
		return out, nil
	}
	st, err := Status(ctx)
	if err == nil && st.State == StateStopped {
		if _, err = Start(ctx); err == nil {
			out.Done = append(out.Done, "started the service")
		}
	}
	return out, err
}

// Uninstall removes the service, and neither messages nor configuration. dir is where
// the messages are.
func Uninstall(ctx context.Context, dir string) (Outcome, error) {
	out := Outcome{Done: []string{}, Notes: []string{}, Outcome: "not installed"}
	if err := needElevation("uninstall the service", name+" service uninstall"); err != nil {
		return out, err
	}
	if at := installedByMSI(); at != "" {
		return out, diag.Fail(diag.CodePackaged, fmt.Errorf("uninstall the service: the MSI has installed it, with %s", at), "uninstall Holdfast under Apps, or with msiexec /x")
	}
	config := InstalledConfig()
	st, err := Status(ctx)
	if err != nil {
		return out, err
	}
	if st.State != StateNotInstalled {
		if st.State != StateStopped && st.State != StateFailed {
			if _, err := Stop(ctx); err != nil {
				return out, err
			}
			out.Done = append(out.Done, "stopped the service")
		}
		k, err := kardianos.ChosenSystem().New(nil, &kardianos.Config{Name: acl.Service})
		if err == nil {
			err = k.Uninstall()
		}
		left, lookErr := Status(ctx)
		switch err = errors.Join(err, lookErr); {
		case err != nil && (lookErr != nil || left.State != StateNotInstalled): // else it was only its source of events
			return out, diag.Fail(diag.CodeService, fmt.Errorf("remove the service: %w", err), "close services.msc and whatever else looks at services, then run this again")
		case left.State != StateNotInstalled:
			out.Notes = append(out.Notes, "the service is gone as soon as services.msc, Task Manager and whatever else looks at services is closed")
		}
		out.Done = append(out.Done, "removed the service "+acl.Service)
		out.Outcome = "removed"
	}
	if present(dir) {
		out.Notes = append(out.Notes, "kept the messages and keys in "+dir+"; to destroy them: rmdir /s \""+dir+"\"")
	}
	if config != "" && present(config) {
		out.Notes = append(out.Notes, "kept the configuration "+config)
	}
	return out, nil
}

// TuneAtBoot is for Linux.
func TuneAtBoot(context.Context, string, bool) ([]string, error) {
	return nil, diag.Fail(diag.CodeNoSystemd, errors.New("tune at boot: on Linux only"), "docs/windows.md says what to set on Windows")
}

// Environment is what the service adds to its own: nothing.
func Environment() []string { return nil }

// installedByMSI is the program that the MSI has installed, "" without one.
func installedByMSI() string {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, installerKey, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer func() { _ = k.Close() }()
	dir, _, err := k.GetStringValue("InstallDir")
	if err != nil {
		return ""
	}
	if exe := filepath.Join(dir, "holdfast.exe"); present(exe) {
		return exe
	}
	return ""
}

// needElevation asks the service manager itself, which decides.
func needElevation(what, command string) error {
	h, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT|windows.SC_MANAGER_CREATE_SERVICE)
	if err == nil {
		return windows.CloseServiceHandle(h)
	}
	if !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return fmt.Errorf("%s: open the service manager: %w", what, err)
	}
	return diag.Fail(diag.CodeNeedsRoot, errors.New(what+": this prompt is not elevated"), "open PowerShell or cmd with \"Run as administrator\", then: "+command)
}

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
