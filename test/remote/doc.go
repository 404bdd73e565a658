// Package remote reaches the built program from other devices: over the local
// network (--lan), and through the reverse proxies whose configurations
// docs/remote.md shows.
package remote
