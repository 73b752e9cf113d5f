// SPDX-License-Identifier: Apache-2.0

package appliance

// The keys of log attributes. A key not in this list does not exist.
const (
	keyAccount   = "account"
	keyAction    = "action"
	keyAddress   = "address"
	keyBytes     = "bytes"
	keyCode      = "code"
	keyConfig    = "config"
	keyConsumer  = "consumer"
	keyCount     = "count"
	keyDataDir   = "data_dir"
	keyDigest    = "digest"
	keyDur       = "dur"
	keyErr       = "err"
	keyExample   = "example"
	keyFix       = "fix"
	keyLimit     = "limit"
	keyListener  = "listener"
	keyMode      = "mode"
	keyNode      = "node"
	keyReason    = "reason"
	keyStream    = "stream"
	keyTotal     = "total"
	keyUser      = "user"
	keyVersion   = "version"
	keyWhat      = "what"
	keyWhere     = "where"
	keyComponent = "component"
)
