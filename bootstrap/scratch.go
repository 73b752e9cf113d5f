// SPDX-License-Identifier: Apache-2.0

package bootstrap

// metaScratch is the metadata key of a stream that `holdfast bench` makes for a run and
// removes after it: nobody needs to be told that the file does not declare it.
const metaScratch = "holdfast.bench"

// Scratch reports whether a stream is one of `holdfast bench`.
func Scratch(config map[string]any) bool {
	metadata, _ := config["metadata"].(map[string]any)
	return text(metadata[metaScratch]) != ""
}
