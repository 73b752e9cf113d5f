// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/sys/windows/svc/eventlog"
	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/holdfast-mq/holdfast/appliance/acl"
)

// The log file is as large as an editor opens, and there are some of them.
const (
	logSize  = 32 // MiB
	logFiles = 5
)

// Log is where a service of Windows writes: nobody reads its output.
type Log struct {
	File   io.Writer
	file   *lumberjack.Logger
	events *eventlog.Log
	crash  *os.File
}

// OpenLog opens the log file in dir, and the Event Log. A service without the one or
// the other goes on without it.
func OpenLog(dir string) *Log {
	l := &Log{file: &lumberjack.Logger{Filename: filepath.Join(dir, "holdfast.log"), MaxSize: logSize, MaxBackups: logFiles}}
	l.File = l.file
	if e, err := eventlog.Open(acl.Service); err == nil {
		l.events = e
	}
	// What Go says of a crash would be written to a stream that a service does not have.
	if f, err := os.OpenFile(filepath.Join(dir, "crash.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		l.crash = f
		_ = debug.SetCrashOutput(f, debug.CrashOptions{})
	}
	return l
}

// Logger writes everything to the file, and what a human must see to the Event Log too.
func (l *Log) Logger(level, format string) *slog.Logger {
	file := NewLogger(l.file, level, format)
	if l.events == nil {
		return file
	}
	return slog.New(slog.NewMultiHandler(file.Handler(), newEventHandler(l.events)))
}

// Tell writes the beginning or the end of the service to the Event Log.
func (l *Log) Tell(text string, failed bool) {
	switch {
	case l.events == nil:
	case failed:
		_ = l.events.Error(eventError, text)
	default:
		_ = l.events.Info(eventInfo, text)
	}
}

// TellEvent writes to the Event Log alone, for what runs as the installer: it opens no
// file.
func TellEvent(text string, failed bool) {
	e, err := eventlog.Open(acl.Service)
	if err != nil {
		return // there is nobody to tell
	}
	l := &Log{events: e}
	l.Tell(text, failed)
	_ = e.Close()
}

// Close ends the log.
func (l *Log) Close() error {
	var errs []error
	if l.events != nil {
		errs = append(errs, l.events.Close())
	}
	if l.crash != nil {
		errs = append(errs, debug.SetCrashOutput(nil, debug.CrashOptions{}), l.crash.Close())
	}
	if err := errors.Join(append(errs, l.file.Close())...); err != nil {
		return fmt.Errorf("close the log: %w", err)
	}
	return nil
}
