// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/holdfast-mq/holdfast/appliance/acl"
)

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

// query asks the service manager. The method of package mgr leaves out how far a start is.
func query(h *mgr.Service) (svc.Status, error) {
	var s windows.SERVICE_STATUS_PROCESS
	var needed uint32
	err := windows.QueryServiceStatusEx(h.Handle, windows.SC_STATUS_PROCESS_INFO, (*byte)(unsafe.Pointer(&s)), uint32(unsafe.Sizeof(s)), &needed)
	if err != nil {
		return svc.Status{}, err
	}
	return svc.Status{
		State: svc.State(s.CurrentState), CheckPoint: s.CheckPoint, WaitHint: s.WaitHint, ProcessId: s.ProcessId,
		Win32ExitCode: s.Win32ExitCode, ServiceSpecificExitCode: s.ServiceSpecificExitCode,
	}, nil
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
	s, err := query(h)
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
		out.State, out.Status = StateStarting, fmt.Sprintf("it gets on: check point %d", s.CheckPoint)
	case svc.StopPending:
		out.State, out.Status = StateStopping, fmt.Sprintf("it gets on: check point %d", s.CheckPoint)
	default:
		out.State = StateStopped
		// ERROR_SERVICE_NEVER_STARTED is a service that was not asked yet.
		if s.Win32ExitCode != 0 && windows.Errno(s.Win32ExitCode) != windows.ERROR_SERVICE_NEVER_STARTED {
			out.State, out.Exit = StateFailed, int(s.Win32ExitCode)
			// The code of Windows for a program that has one of its own says nothing.
			if windows.Errno(s.Win32ExitCode) != windows.ERROR_SERVICE_SPECIFIC_ERROR {
				out.Status = windows.Errno(s.Win32ExitCode).Error()
			}
		}
		if s.ServiceSpecificExitCode != 0 {
			out.Exit = int(s.ServiceSpecificExitCode)
		}
	}
	return out, nil
}

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
