// SPDX-License-Identifier: Apache-2.0

package acl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"
)

func TestWritersNamesStrangers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	me, err := Me()
	if err != nil {
		t.Fatal(err)
	}
	if err := Set(dir, Own(me)); err != nil {
		t.Fatal(err)
	}
	if who, err := Writers(dir); err != nil || len(who) > 0 {
		t.Errorf("own directory: got %q, %v, want nobody", who, err)
	}
	if err := Set(dir, "D:PAI(A;OICI;FA;;;WD)"); err != nil {
		t.Fatal(err)
	}
	if who, err := Writers(dir); err != nil || len(who) != 1 {
		t.Errorf("open directory: got %q, %v, want everybody", who, err)
	}
}

// TestDirectoryIsClosedFromTheFirstMoment makes one below a directory that is open to
// everybody.
func TestDirectoryIsClosedFromTheFirstMoment(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.Mkdir(open, 0o700), Set(open, "D:PAI(A;OICI;FA;;;WD)")); err != nil {
		t.Fatal(err)
	}
	me, err := Me()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(open, "d")
	if err := Mkdir(dir, Own(me)); err != nil {
		t.Fatal(err)
	}
	for what, look := range map[string]func(string) ([]string, error){"change": Writers, "read": Readers, "change itself": DirWriters} {
		if who, err := look(dir); err != nil || len(who) > 0 {
			t.Errorf("got %q, %v who may %s it, want nobody", who, err, what)
		}
	}
	if err := Mkdir(dir, Own(me)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v for a second one, want that it is there", err)
	}
	if who, err := DirWriters(open); err != nil || len(who) != 1 {
		t.Errorf("open directory: got %q, %v, want everybody", who, err)
	}
}

func TestFileIsClosedFromTheFirstMoment(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.Mkdir(open, 0o700), Set(open, "D:PAI(A;OICI;FA;;;WD)")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(open, "secret")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("secret")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if who, err := Readers(path); err != nil || len(who) > 0 {
		t.Errorf("got %q, %v who may read it, want nobody", who, err)
	}
	if _, err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v for a second one, want that it is there", err)
	}
}

// TestExposedLooksAbove has a directory in which everybody may replace the one of the file.
func TestExposedLooksAbove(t *testing.T) {
	me, err := Me()
	if err != nil {
		t.Fatal(err)
	}
	for list, open := range map[string]bool{Own(me): false, "D:P(A;;FA;;;WD)": true} {
		above := filepath.Join(t.TempDir(), "above")
		dir := filepath.Join(above, "dir")
		file := filepath.Join(dir, "file")
		if err := errors.Join(os.Mkdir(above, 0o700), Set(above, list), Mkdir(dir, Own(me))); err != nil {
			t.Fatal(err)
		}
		f, err := Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{file, dir} {
			where, who, err := Exposed(path)
			if err != nil || (where == above) != open || where == dir || where == file {
				t.Errorf("%s below %s: got %s, %q, %v", path, list, where, who, err)
			}
		}
	}
}

// TestStrangersOfWindowsItself has the access lists of a new Windows, which Wine has not.
func TestStrangersOfWindowsItself(t *testing.T) {
	const trustedInstaller = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"
	service := ServiceSID(Service)
	for name, c := range map[string]struct {
		sddl             string
		change, replaced int // how many may
	}{
		`C:\`:            {"O:" + trustedInstaller + "D:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)(A;OICIIO;0x1301bf;;;AU)(A;;0x4;;;AU)", 1, 0},
		`C:\ProgramData`: {"O:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICIIO;FA;;;CO)(A;OICI;0x1200a9;;;BU)(A;CI;0x116;;;BU)", 1, 0},
		`C:\Program Files`: {"O:" + trustedInstaller + "D:PAI(A;;FA;;;" + trustedInstaller + ")(A;CIIO;GA;;;" + trustedInstaller + ")(A;;0x1301bf;;;SY)(A;OICIIO;GA;;;SY)" +
			"(A;;0x1301bf;;;BA)(A;OICIIO;GA;;;BA)(A;;0x1200a9;;;BU)(A;OICIIO;GXGR;;;BU)(A;OICIIO;GA;;;CO)(A;;0x1200a9;;;S-1-15-2-1)(A;OICIIO;GXGR;;;S-1-15-2-1)", 0, 0},
		"a directory in the root":   {"O:BAD:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIID;0x1200a9;;;BU)(A;ID;0x1301bf;;;AU)(A;OICIIOID;SDGXGWGR;;;AU)", 1, 1},
		"ours":                      {Config(), 0, 0},
		"that of the data":          {State(), 0, 0},
		"a file that anybody owns":  {"O:BUD:P(A;;FA;;;SY)", 1, 1},
		"one with a condition":      {"O:BAD:P(A;;FA;;;SY)(XA;;FA;;;WD;(@User.clearance==1))", 1, 1},
		"the service's own":         {"O:" + service + "D:P(A;;FA;;;" + service + ")", 0, 0},
		"the administrator's":       {"O:S-1-5-21-1-2-3-500D:P(A;;FA;;;S-1-5-21-1-2-3-512)", 0, 0},
		"that of a user of his own": {"O:S-1-5-21-1-2-3-1001D:P(A;;FA;;;SY)", 1, 1},
	} {
		sd, err := windows.SecurityDescriptorFromString(c.sddl)
		if err != nil {
			t.Logf("%s: not read by this system: %v", name, err)
			continue
		}
		for rights, want := range map[windows.ACCESS_MASK]int{changes: c.change, replaces: c.replaced} {
			if who, err := strangersOf(name, sd, rights); err != nil || len(who) != want {
				t.Errorf("%s: got %q, %v for rights %#x, want %d", name, who, err, rights, want)
			}
		}
	}
}
