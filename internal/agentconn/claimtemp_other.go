//go:build !linux

package agentconn

// ClaimTemp does nothing: the folder is used on Linux only.
func ClaimTemp(_ []string, _, _ string) error { return nil }

// OwnTemp returns env.
func OwnTemp(env []string, _ string) ([]string, error) { return env, nil }
