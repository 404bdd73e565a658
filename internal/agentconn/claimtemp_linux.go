package agentconn

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// ClaimTemp creates a folder in that for temporary files, so that no other user
// can create it. It is for an agent that follows links there and does not check
// who owns the folder. prefix is its name without the number of the user, env is
// the environment of the agent. If the folder is the user's and its group can write
// to it, ClaimTemp changes that. It fails with SessionCreateFailed if another user
// can write to the folder.
func ClaimTemp(env []string, agent, prefix string) error {
	return claim(tempPath(env, prefix), agent)
}

// OwnTemp returns env, with which the agent has a folder for temporary files that
// belongs to the user alone. It is for an agent that uses a folder in the shared
// one and does not check who owns it. OwnTemp creates the folder in the shared one,
// so that the system still removes old files, and fails as ClaimTemp does.
func OwnTemp(env []string, agent string) ([]string, error) {
	path := tempPath(env, "runnel-")
	if err := claim(path, agent); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err != nil {
		return env, nil // it cannot be created here
	}
	return SetVariable(env, "TMPDIR", path), nil
}

func tempPath(env []string, prefix string) string {
	dir, _ := lookup(env, "TMPDIR")
	if dir == "" {
		dir = "/tmp"
	}
	return filepath.Join(dir, prefix+strconv.Itoa(os.Geteuid()))
}

func claim(path, agent string) error {
	err := os.Mkdir(path, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return nil // if it cannot be created here, the agent cannot create it either
	}
	info, err := os.Lstat(path)
	if err == nil {
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && info.IsDir() && int(st.Uid) == os.Geteuid() && info.Mode()&0o002 == 0 {
			if info.Mode()&0o020 == 0 {
				return nil
			}
			// The agent made the folder in a terminal with the umask 002, which is usual
			// where each user has a group alone.
			if err = os.Chmod(path, 0o700); err == nil {
				return nil
			}
		}
	}
	return runnel.Fail(runnel.SessionCreateFailed, "Another user can write to "+text.OneLine(path, 500)+". "+agent+" would use what is there, so that user could change your files. "+
		"Remove that folder, or set TMPDIR to a folder of your own for the server.", err)
}
