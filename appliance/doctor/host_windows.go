// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
)

func clockSynced() (bool, error) { return false, errors.ErrUnsupported }

func ownFileLimit() (uint64, error) { return math.MaxUint64, nil }

// lockHolder is the node, when it answers: Windows does not tell who has a lock.
func (m *machine) lockHolder() int {
	if node, err := m.ask(context.Background()); err == nil {
		return node.PID
	}
	return 0
}

func inodes(string) (total, free uint64, err error) { return 0, 0, nil }

func (m *machine) owner() account { return m.me() }

// lookAtAccess asks who besides administrators and the service may change or read what
// is the node's.
func lookAtAccess(_ context.Context, m *machine) report {
	var r report
	dir := m.dataDir()
	for _, p := range append([]string{dir}, datadir.Secrets(dir)...) {
		if len(r.findings) > 0 {
			break // what is below has its access from here
		}
		m.lookForStrangers(&r, p, acl.Readers, acl.Full, "read", "keys are in it: they can be anybody in the queue")
	}
	if m.in.File != "" {
		files := append(config.Files(m.in.File), filepath.Dir(absolute(m.in.File)))
		for _, p := range files {
			m.lookForStrangers(&r, p, acl.Writers, acl.Read, "change", "they decide what the node does, and the service refuses to start with it")
		}
	}
	r.measured("%s is for administrators and the node", dir)
	return r
}

func (m *machine) lookForStrangers(r *report, path string, look func(string) ([]string, error), keep acl.Right, may, why string) {
	who, err := look(path)
	switch {
	case gone(err):
	case err != nil:
		r.blind(m, err.Error())
	case len(who) > 0:
		info, err := os.Stat(path)
		r.fail(path+": "+strings.Join(who, ", ")+" may "+may+" it", why,
			lines(acl.Commands(path, err == nil && info.IsDir(), keep, acl.Keepers()...)...))
	}
}

// lookAtFileSystem: what keeps no journal can lose a whole directory in a power cut.
func lookAtFileSystem(_ context.Context, m *machine) report {
	var r report
	dir := m.storeDir()
	v, err := datadir.VolumeOf(dir)
	if err != nil {
		r.blind(m, err.Error())
		return r
	}
	if !slices.Contains([]string{"NTFS", "ReFS", "CSVFS"}, v.FSType) {
		r.fail(dir+" is on "+v.FSType+", which has no journal", "a power cut can lose files that were flushed", comment("move the data to a volume with NTFS or ReFS"))
	}
	r.measured("%s on %s", v.FSType, dir)
	return r
}

// writeCache is STORAGE_WRITE_CACHE_PROPERTY.
type writeCache struct {
	version, size, kind, enabled, changeable, throughSupported uint32
	flushSupported, protectedByUser, nv                        byte
}

// lookAtWriteCache asks the driver of the disk, which may not say.
func lookAtWriteCache(_ context.Context, m *machine) report {
	var r report
	volume := filepath.VolumeName(m.storeDir())
	p, err := cacheOf(`\\.\` + volume)
	if err != nil {
		return skip("the driver of %s does not say; Device Manager, disk, Policies: \"Turn off Windows write-cache buffer flushing\" must not be ticked", volume)
	}
	const on = 2
	text := volume + ": no write cache"
	if p.enabled == on {
		text = volume + ": write cache on, emptied by each flush"
	}
	if p.protectedByUser != 0 {
		r.fail(volume+": Windows was told that the disk has a power supply of its own, and does not empty its cache", "a power cut loses what was acknowledged",
			comment("Device Manager, the disk, Policies: untick \"Turn off Windows write-cache buffer flushing on the device\""))
	}
	r.measured("%s", text)
	return r
}

func cacheOf(volume string) (writeCache, error) {
	var p writeCache
	name, err := windows.UTF16PtrFromString(volume)
	if err != nil {
		return p, err
	}
	h, err := windows.CreateFile(name, 0, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return p, err
	}
	defer func() { _ = windows.CloseHandle(h) }()
	const queryProperty, writeCacheProperty = 0x2D1400, 4
	query := struct{ property, kind, more uint32 }{property: writeCacheProperty}
	var n uint32
	err = windows.DeviceIoControl(h, queryProperty, (*byte)(unsafe.Pointer(&query)), uint32(unsafe.Sizeof(query)),
		(*byte)(unsafe.Pointer(&p)), uint32(unsafe.Sizeof(p)), &n, nil)
	return p, err
}

// lookAtAntivirus looks at Microsoft Defender; others have no common place for what
// they leave alone.
func lookAtAntivirus(_ context.Context, m *machine) report {
	var r report
	dir := m.dataDir()
	if k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\WinDefend`, registry.QUERY_VALUE); err != nil {
		return skip("Microsoft Defender is not here; have any other scanner leave %s alone", dir)
	} else if err := k.Close(); err != nil {
		return skip("%v", err)
	}
	fix := "powershell Add-MpPreference -ExclusionPath " + quote(dir)
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Windows Defender\Exclusions\Paths`, registry.QUERY_VALUE)
	if err != nil {
		r.find(Unknown, "what Microsoft Defender leaves alone can't be read", "a scanner that holds a file of the store delays it or makes it fail", fix)
		return r
	}
	defer func() { _ = k.Close() }()
	paths, err := k.ReadValueNames(0)
	if err != nil {
		r.blind(m, err.Error())
		return r
	}
	if !slices.ContainsFunc(paths, func(p string) bool { return isUnder(dir, p) }) {
		r.warn("Microsoft Defender scans "+dir, "a scanner that holds a file of the store delays it or makes it fail", fix)
	}
	r.measured("Microsoft Defender leaves %s alone", dir)
	return r
}

// isUnder reports whether dir is path or below it, as Windows compares names.
func isUnder(dir, path string) bool {
	dir, path = strings.ToLower(filepath.Clean(dir)), strings.ToLower(filepath.Clean(path))
	return dir == path || strings.HasPrefix(dir, strings.TrimSuffix(path, `\`)+`\`)
}

// lookAtPower: a machine that sleeps is off the network.
func lookAtPower(context.Context, *machine) report {
	var r report
	after, err := sleepsAfter()
	if err != nil {
		return skip("the power plan can't be read: %v", err)
	}
	if after > 0 {
		r.warn("on mains the machine sleeps after "+after.String(), "nobody can publish meanwhile", "powercfg /change standby-timeout-ac 0")
	}
	r.measured("the machine does not sleep on mains")
	return r
}

func sleepsAfter() (time.Duration, error) {
	dll := windows.NewLazySystemDLL("powrprof.dll")
	getScheme, readValue := dll.NewProc("PowerGetActiveScheme"), dll.NewProc("PowerReadACValueIndex")
	if err := errors.Join(getScheme.Find(), readValue.Find()); err != nil {
		return 0, err
	}
	var scheme *windows.GUID
	if code, _, _ := getScheme.Call(0, uintptr(unsafe.Pointer(&scheme))); code != 0 {
		return 0, windows.Errno(code)
	}
	if scheme == nil {
		return 0, errors.ErrUnsupported
	}
	defer func() { _, _ = windows.LocalFree(windows.Handle(unsafe.Pointer(scheme))) }()
	sleep := windows.GUID{Data1: 0x238c9fa8, Data2: 0x0aad, Data3: 0x41ed, Data4: [8]byte{0x83, 0xf4, 0x97, 0xbe, 0x24, 0x2c, 0x8f, 0x20}}
	standby := windows.GUID{Data1: 0x29f6c1db, Data2: 0x86da, Data3: 0x48c5, Data4: [8]byte{0x9f, 0xdb, 0xf2, 0xb6, 0x7b, 0x1f, 0x44, 0xda}}
	var seconds uint32
	code, _, _ := readValue.Call(0, uintptr(unsafe.Pointer(scheme)), uintptr(unsafe.Pointer(&sleep)), uintptr(unsafe.Pointer(&standby)), uintptr(unsafe.Pointer(&seconds)))
	if code != 0 {
		return 0, windows.Errno(code)
	}
	return time.Duration(seconds) * time.Second, nil
}
