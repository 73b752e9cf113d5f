// SPDX-License-Identifier: Apache-2.0

package engine

// Interest returns how many subscriptions an account has for a subject, streams and
// other servers' included; 0 for an account that is not known.
func (e *Engine) Interest(accountKey, subject string) int {
	acc, err := e.server.LookupAccount(accountKey)
	if err != nil {
		return 0
	}
	return acc.Interest(subject)
}
