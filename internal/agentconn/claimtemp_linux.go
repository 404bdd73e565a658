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
// the environment of the agent. If the folder, or one in it, is the user's and its
// group can write to it, ClaimTemp changes that. It fails with SessionCreateFailed
// if another user can write to the folder, has made anything in it, or could create
// the folder later.
func ClaimTemp(env []string, agent, prefix string) error {
	path := tempPath(env, prefix)
	if err := claim(path, agent); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err != nil {
		return nil // it cannot be created here
	}
	err := filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if err == nil && at != path {
			err = keepOwn(at, e)
		}
		if errors.Is(err, fs.ErrNotExist) { // an agent has removed it meanwhile
			return nil
		}
		return err
	})
	if err != nil {
		return notOwn(path, agent, err)
	}
	return nil
}

// OwnTemp returns env, with which the agent has a folder for temporary files that
// belongs to the user alone. It is for an agent that uses a folder in the shared
// one and does not check who owns it. OwnTemp creates the folder in the shared one,
// so that the system still removes old files, and fails as ClaimTemp does.
func OwnTemp(env []string, agent string) ([]string, error) {
	path := tempPath(env, ownTempPrefix)
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
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EROFS):
		return nil // the agent cannot create it either
	case !errors.Is(err, fs.ErrExist): // such as a full disk: once there is room, another user can create it
		return runnel.Fail(runnel.SessionCreateFailed, "Runnel cannot create "+text.OneLine(path, 500)+", so another user could create it for "+agent+" to use. "+
			"Make room there, or set TMPDIR to a folder of your own for the server.", err)
	}
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() && isOwn(info) && info.Mode()&0o002 == 0 {
		if info.Mode()&0o020 != 0 {
			// The agent made the folder in a terminal with the umask 002, which is usual
			// where each user has a group alone.
			err = os.Chmod(path, 0o700)
		}
		if err == nil {
			return nil
		}
	}
	return notOwn(path, agent, err)
}

func notOwn(path, agent string, err error) error {
	return runnel.Fail(runnel.SessionCreateFailed, "Another user can write to "+text.OneLine(path, 500)+". "+agent+" would use what is there, so that user could change your files. "+
		"Remove that folder, or set TMPDIR to a folder of your own for the server.", err)
}

func isOwn(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// keepOwn fails if another user made an entry, such as a member of the group while
// the group could write to the folder. It closes a folder to everybody else.
func keepOwn(path string, e fs.DirEntry) error {
	info, err := e.Info()
	switch {
	case err != nil:
		return err
	case !isOwn(info):
		return errors.New(path + " belongs to another user")
	case info.IsDir() && info.Mode()&0o022 != 0:
		return os.Chmod(path, 0o700)
	}
	return nil
}
