// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	kardianos "github.com/kardianos/service"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const name = "holdfast"

// orderLimit is how long a start or stop by hand may take without a sign that it gets on.
const orderLimit = 2 * hint

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

type change int

const (
	none change = iota
	added
	altered
)

func definition(s Setup) *kardianos.Config {
	return &kardianos.Config{
		Name: acl.Service, DisplayName: "Holdfast message queue",
		Description: "Durable message queue: keeps every acknowledged message through a power cut.",
		UserName:    acl.Account, Executable: s.Binary,
		// Nothing is guessed from how the process was started: --scm says it.
		Arguments: []string{"run", "--scm", "--config", s.Config},
		Option:    kardianos.KeyValue{"StartType": "automatic", "DelayedAutoStart": true},
	}
}

// register makes the service known, with the program and the configuration of s.
func register(s Setup) (change, error) {
	want := definition(s)
	fail := func(err error) (change, error) {
		return none, diag.Fail(diag.CodeService, fmt.Errorf("register the service: %w", err), "correct that, then run this again")
	}
	m, err := mgr.Connect()
	if err != nil {
		return fail(err)
	}
	defer func() { _ = m.Disconnect() }()
	h, err := m.OpenService(acl.Service)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		k, err := kardianos.ChosenSystem().New(nil, want)
		if err != nil {
			return fail(err)
		}
		if err := k.Install(); err != nil {
			return fail(err)
		}
		return added, nil
	}
	if err != nil {
		return fail(err)
	}
	defer func() { _ = h.Close() }()
	c, err := configOf(h)
	if err != nil {
		return fail(err)
	}
	if c.path == imagePath(want) && c.start == mgr.StartAutomatic {
		return none, nil
	}
	if err := windows.ChangeServiceConfig(h.Handle, windows.SERVICE_NO_CHANGE, mgr.StartAutomatic, windows.SERVICE_NO_CHANGE,
		nil, nil, nil, nil, nil, nil, nil); err != nil {
		return fail(err)
	}
	return altered, setPath(h, s)
}

// setting is what the service manager knows of a service. The method of package mgr asks for
// what not every version of Windows answers, and then tells nothing.
type setting struct {
	path  string
	start uint32
}

func configOf(h *mgr.Service) (setting, error) {
	buffer := make([]byte, 8<<10) // the most that there is
	c := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buffer[0]))
	var needed uint32
	if err := windows.QueryServiceConfig(h.Handle, c, uint32(len(buffer)), &needed); err != nil {
		return setting{}, err
	}
	return setting{windows.UTF16PtrToString(c.BinaryPathName), c.StartType}, nil
}

func imagePath(c *kardianos.Config) string {
	words := []string{windows.EscapeArg(c.Executable)}
	for _, a := range c.Arguments {
		words = append(words, windows.EscapeArg(a))
	}
	return strings.Join(words, " ")
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
		if err != nil {
			return out, diag.Fail(diag.CodeService, fmt.Errorf("remove the service: %w", err), "close services.msc and whatever else looks at services, then run this again")
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

// Start starts the service and waits until it is ready.
func Start(ctx context.Context) (State, error) {
	return order(ctx, "start", func(ctx context.Context, h *mgr.Service) error {
		if err := h.Start(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
			return err
		}
		return await(ctx, h, svc.Running)
	})
}

// Stop stops the service and waits for its end.
func Stop(ctx context.Context) (State, error) { return order(ctx, "stop", stop) }

// Restart stops and starts the service, and waits until it is ready.
func Restart(ctx context.Context) (State, error) {
	return order(ctx, "restart", func(ctx context.Context, h *mgr.Service) error {
		if err := stop(ctx, h); err != nil {
			return err
		}
		if err := h.Start(); err != nil {
			return err
		}
		return await(ctx, h, svc.Running)
	})
}

func stop(ctx context.Context, h *mgr.Service) error {
	if _, err := h.Control(svc.Stop); err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return err
	}
	return await(ctx, h, svc.Stopped)
}

func order(ctx context.Context, verb string, do func(context.Context, *mgr.Service) error) (State, error) {
	if err := needElevation(verb+" the service", name+" service "+verb); err != nil {
		return State{}, err
	}
	h, err := open(windows.SERVICE_ALL_ACCESS)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return State{State: StateNotInstalled}, diag.Fail(diag.CodeNotInstalled, errors.New(verb+" the service: it is not installed"), name+" service install")
	}
	if err != nil {
		return State{}, fmt.Errorf("%s the service: %w", verb, err)
	}
	defer func() { _ = h.Close() }()
	if err := do(ctx, h); err != nil {
		return State{}, diag.Fail(diag.CodeService, fmt.Errorf("%s the service: %w", verb, err), "the Event Log (source "+acl.Service+") and "+LogDir()+"\\holdfast.log say why")
	}
	return Status(ctx)
}

// await waits for a state for as long as the service gives signs that it gets on.
func await(ctx context.Context, h *mgr.Service, want svc.State) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var seen svc.Status
	until := time.Now().Add(orderLimit)
	for {
		s, err := h.Query()
		switch {
		case err != nil:
			return err
		case s.State == want:
			return nil
		case s.State == svc.Stopped:
			return stoppedBy(s)
		case s.CheckPoint != seen.CheckPoint || s.State != seen.State:
			seen, until = s, time.Now().Add(orderLimit)
		case time.Now().After(until):
			return fmt.Errorf("no sign of it for %s", orderLimit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func stoppedBy(s svc.Status) error {
	if s.ServiceSpecificExitCode != 0 {
		return fmt.Errorf("it ended with exit code %d", s.ServiceSpecificExitCode)
	}
	return fmt.Errorf("it ended: %w", windows.Errno(s.Win32ExitCode))
}

// open opens the service with no more rights than are needed: everybody may look.
func open(access uint32) (*mgr.Service, error) {
	h, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return nil, err
	}
	defer func() { _ = windows.CloseServiceHandle(h) }()
	n, err := windows.UTF16PtrFromString(acl.Service)
	if err != nil {
		return nil, err
	}
	s, err := windows.OpenService(h, n, access)
	if err != nil {
		return nil, err
	}
	return &mgr.Service{Name: acl.Service, Handle: s}, nil
}

// Status is how the service is.
func Status(context.Context) (State, error) {
	h, err := open(windows.SERVICE_QUERY_CONFIG | windows.SERVICE_QUERY_STATUS)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return State{State: StateNotInstalled}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("look at the service: %w", err)
	}
	defer func() { _ = h.Close() }()
	s, err := h.Query()
	if err != nil {
		return State{}, fmt.Errorf("look at the service: %w", err)
	}
	c, err := configOf(h)
	if err != nil {
		return State{}, fmt.Errorf("look at the service: %w", err)
	}
	out := State{PID: int(s.ProcessId), Enabled: c.start == mgr.StartAutomatic, Unit: c.path}
	switch s.State {
	case svc.Running:
		out.State = StateRunning
	case svc.StartPending:
		out.State = StateStarting
	case svc.StopPending:
		out.State = StateStopping
	default:
		out.State = StateStopped
		// ERROR_SERVICE_NEVER_STARTED is a service that was not asked yet.
		if s.Win32ExitCode != 0 && windows.Errno(s.Win32ExitCode) != windows.ERROR_SERVICE_NEVER_STARTED {
			out.State, out.Exit = StateFailed, int(s.Win32ExitCode)
		}
		if s.ServiceSpecificExitCode != 0 {
			out.Exit = int(s.ServiceSpecificExitCode)
		}
	}
	return out, nil
}

// TuneAtBoot is for Linux.
func TuneAtBoot(context.Context, string, bool) ([]string, error) {
	return nil, diag.Fail(diag.CodeNoSystemd, errors.New("tune at boot: on Linux only"), "docs/windows.md says what to set on Windows")
}

// Environment is what the service adds to its own: nothing.
func Environment() []string { return nil }

// InstalledConfig is the configuration that the installed service names; empty when
// there is none.
func InstalledConfig() string {
	h, err := open(windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return ""
	}
	defer func() { _ = h.Close() }()
	c, err := configOf(h)
	if err != nil {
		return ""
	}
	words, err := windows.DecomposeCommandLine(c.path)
	if err != nil {
		return ""
	}
	for i, w := range words[:max(len(words)-1, 0)] {
		if w == "--config" {
			return words[i+1]
		}
	}
	return ""
}

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
