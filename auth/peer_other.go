//go:build !linux

package auth

import "net"

// Who is at the other end cannot be told here in a way that an agent could not
// get round, so the socket gives no identity and a token is needed.

func sameUser(*net.UnixConn) (int, bool) { return 0, false }

func ours(int) bool { return true }
