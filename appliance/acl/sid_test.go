// SPDX-License-Identifier: Apache-2.0

package acl

import "testing"

// Those that Windows itself has written down.
func TestServiceSIDIsTheOneOfWindows(t *testing.T) {
	for name, want := range map[string]string{
		"TrustedInstaller": "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
		"trustedinstaller": "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
	} {
		if got := ServiceSID(name); got != want {
			t.Errorf("got %s for %s, want %s", got, name, want)
		}
	}
}

func TestNobodyElseIsLetIn(t *testing.T) {
	sid := ServiceSID(Service)
	for what, c := range map[string]struct{ got, want string }{
		"config": {Config(), "O:BAD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;" + sid + ")"},
		"state":  {State(), "O:BAD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;" + sid + ")"},
		"pipe":   {Pipe(sid, "S-1-5-4"), "O:" + sid + "D:P(A;;GA;;;SY)(A;;GA;;;BA)(A;;GA;;;" + sid + ")(A;;0x12019b;;;S-1-5-4)"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", what, c.got, c.want)
		}
	}
}

func TestClosingTakesEverybodyElseOut(t *testing.T) {
	const want = "from an elevated prompt `icacls \"C:\\a b\" /setowner *S-1-5-32-544`, then `icacls \"C:\\a b\" /reset`, then " +
		"`icacls \"C:\\a b\" /inheritance:r /grant:r \"*S-1-5-18:(OI)(CI)F\" \"*S-1-5-32-544:(OI)(CI)F\" \"ann:(OI)(CI)R\"`"
	if got := Closing(`C:\a b`, true, Read, "ann"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
