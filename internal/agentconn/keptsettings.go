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
		for range 2 {
			given, e := private.ReadFile(path, private.Nothing, maxKeptSettings)
			if e == nil && bytes.Equal(given, content) {
				return path, nil
			}
			_ = os.Remove(path) // another program changed it, or it is missing
			err = private.Create(path, content)
		}
		if err == nil {
			err = errors.New("another program changes " + path)
		}
	}
	return "", runnel.Fail(runnel.SessionCreateFailed, "Runnel cannot write settings for the agent to the folder for caches", err)
}
