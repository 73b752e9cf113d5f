// SPDX-License-Identifier: Apache-2.0

package diag

import "errors"

// Fault is an error at run time that a person has to act on. It carries a
// stable code for machines and a hint for people; both are set where the
// knowledge is and printed only by cmd.
type Fault struct {
	FaultCode Code
	Err       error
	FaultHint string
	// Stays is true when the fault will not heal by itself, so that restarting
	// is of no use: the process exits with 78 and the service manager stops.
	Stays bool
}

// Fail returns a fault that may heal by itself, such as a port in use.
func Fail(code Code, err error, hint string) *Fault {
	return &Fault{FaultCode: code, Err: err, FaultHint: hint}
}

// FailPermanently returns a fault that will not heal by itself, such as a
// store written by a newer version.
func FailPermanently(code Code, err error, hint string) *Fault {
	return &Fault{FaultCode: code, Err: err, FaultHint: hint, Stays: true}
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

// Hint says what to do about it.
func (f *Fault) Hint() string { return f.FaultHint }

// Code identifies the kind of fault.
func (f *Fault) Code() Code { return f.FaultCode }

// Permanent reports that it will not heal by itself.
func (f *Fault) Permanent() bool { return f.Stays }

// Hint returns the hint of the first error in err's chain that has one.
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// CodeOf returns the code of the first error in err's chain that has one.
func CodeOf(err error) Code {
	var c interface{ Code() Code }
	if errors.As(err, &c) {
		return c.Code()
	}
	return ""
}

// Permanent reports whether err will not heal by itself.
func Permanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}
