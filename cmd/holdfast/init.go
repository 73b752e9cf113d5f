// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func newInitCmd(std stdio) *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented starter configuration [changes state]",
		Long: "Write a starter configuration with every key explained: to FILE, which must not\n" +
			"exist yet, or to stdout.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "-" {
				_, err := std.out.Write(config.Starter())
				return err
			}
			return writeNew(std, args[0], config.Starter())
		},
	}
}

// writeNew writes the starter and says what comes next.
func writeNew(std stdio, name string, data []byte) error {
	if err := createFile(name, data, 0o640); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s written; next: holdfast check %s, then holdfast run --config %s\n", name, name, name)
	return nil
}

// createFile writes a file that must not exist: what is there is somebody's.
func createFile(name string, data []byte, perm fs.FileMode) error {
	create := func() (*os.File, error) { return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm) }
	if perm == 0o600 { // also where modes say nothing
		create = func() (*os.File, error) { return acl.Create(name) }
	}
	f, err := create()
	if errors.Is(err, fs.ErrExist) {
		return diag.Fail(diag.CodeExists, fmt.Errorf("write %s: the file exists already", name), "name another file, or remove this one")
	}
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(name))
	}
	return nil
}
