// SPDX-License-Identifier: Apache-2.0

// Package diag holds what Holdfast says when something is wrong: positions,
// problems found in configuration, the list that collects all of them, faults
// met at run time, the table of their codes, and the printer.
//
// It owns the wording's shape (what, where, fix), not the wording itself, and it
// imports nothing but the standard library, so that every package can use it.
package diag
