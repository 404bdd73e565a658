//go:build supervise

package supervisor

import "embed"

// bin is empty in cmd/supervise itself, which would otherwise hold the one
// built before it, and so on.
var bin embed.FS
