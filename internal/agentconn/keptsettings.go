package agentconn

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/text"
)

// maxKeptSettings bounds the file that KeepSettings reads.
const maxKeptSettings = 4 << 20

// KeepSettings returns the path of a file with this content in the user's folder
// for caches, for settings that Runnel gives to an agent. name is the end of its
// name. Agents with the same settings share the file. It fails with
// SessionCreateFailed.
func KeepSettings(name string, content []byte) (string, error) {
	cache, err := os.UserCacheDir()
	if err == nil && strings.Contains(cache, "$") {
		err = errors.New("the agent would replace the $ in " + cache)
	}
	dir := filepath.Join(cache, "runnel", "settings")
	if err == nil {
		err = private.Dir(dir)
	}
	if err == nil {
		path := filepath.Join(dir, fmt.Sprintf("%x-%s", sha256.Sum256(content), name))
		given, e := private.ReadFile(path, private.Nothing, maxKeptSettings)
		if e != nil || !bytes.Equal(given, content) { // missing, or another program changed it
			err = replaceFile(path, content)
		}
		if err == nil {
			return path, nil
		}
	}
	message := "Runnel cannot write settings for the agent to the folder for caches"
	if unsafe, ok := errors.AsType[*private.Error](err); ok { // such as a folder that its group can change, which is usual with the umask 002
		message += ": " + text.OneLine(unsafe.Error(), 1000)
	} else if cache != "" {
		message += ", " + text.OneLine(dir, 500)
	}
	return "", runnel.Fail(runnel.SessionCreateFailed, message+". Or name another folder of your own with XDG_CACHE_HOME.", err)
}

// replaceFile writes a file that only this user can read. A program that reads
// path meanwhile finds the whole old file or the whole new one.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".settings-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
