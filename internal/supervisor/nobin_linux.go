//go:build supervise

package supervisor

import "embed"

// bin is empty in cmd/supervise itself, which would otherwise embed an older
// build of itself.
var bin embed.FS
