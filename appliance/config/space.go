// SPDX-License-Identifier: Apache-2.0

package config

// minFreeAtMost bounds min_free where it is not set, in bytes: on a large volume a share
// of it is more than anybody has to keep.
const minFreeAtMost = 8 << 30

// KeepFree is what must stay free on a volume of total bytes, in bytes.
func (s Storage) KeepFree(total int64) int64 {
	if s.MinFree == (Share{}) {
		return min(total/20, minFreeAtMost)
	}
	return max(s.MinFree.Of(total), 0)
}

// Promised is what the declared streams may take on a volume of total bytes, in bytes:
// never more than storage.limit, and all of that when one has no limit of its own.
func (c *Config) Promised(total int64) int64 {
	limit := c.Storage.Limit.Of(total)
	var sum int64
	for _, a := range c.Accounts {
		for _, s := range a.Streams {
			if s.Storage != nil && *s.Storage == "memory" {
				continue
			}
			if s.MaxBytes == nil || *s.MaxBytes < 0 {
				return limit
			}
			sum += int64(*s.MaxBytes)
		}
	}
	return min(sum, limit)
}
