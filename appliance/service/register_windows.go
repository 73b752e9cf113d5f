// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	kardianos "github.com/kardianos/service"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

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
		fix := "correct that, then run this again"
		if errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
			fix = "close services.msc, Task Manager and whatever else looks at services, then run this again"
		}
		return none, diag.Fail(diag.CodeService, fmt.Errorf("register the service: %w", err), fix)
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
