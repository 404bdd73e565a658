package codex

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/translate"
)

// rollout matches the name of a file that holds a conversation. After a revert
// to an earlier turn, the following turns are in a file whose name has "_" and
// a second id after the conversation's id.
var rollout = regexp.MustCompile(`^rollout-[0-9T-]{19}-([0-9a-f-]{36})(_[0-9a-f-]{36})?\.jsonl$`)

// rollouts returns the glob patterns that match the names of a conversation's
// files.
func rollouts(id string) []string {
	return []string{"rollout-*-" + id + ".jsonl", "rollout-*-" + id + "_*.jsonl"}
}

// threadOf reads a conversation's id and its model provider from the first line
// of its file.
func threadOf(file string) (id, models string, err error) {
	f, _, err := agentconn.OpenPlain(os.OpenFile, file)
	if err != nil {
		return "", "", runnel.Fail(runnel.InvalidRequest, "the file cannot be read", err)
	}
	defer f.Close()
	line, err := firstLine(f)
	var meta struct {
		Type    string
		Payload struct {
			ID     string
			Models string `json:"model_provider"`
		}
	}
	if err == nil {
		err = json.Unmarshal(line, &meta)
	}
	if meta.Type != "session_meta" || uuid.Validate(meta.Payload.ID) != nil {
		return "", "", runnel.Fail(runnel.InvalidRequest, "the file is not a conversation with Codex", err)
	}
	return meta.Payload.ID, meta.Payload.Models, nil
}

// firstLine returns the first line of a file. It reads no more than a line may
// have: a file with holes can be endless and yet take no space on the disk.
func firstLine(f io.Reader) ([]byte, error) {
	return jsonl.NewReader(io.LimitReader(f, jsonl.DefaultMax), 0).Next()
}

// copyOf creates a folder in Codex's layout that contains one conversation as
// one file. It also defines a model provider with the name that the
// conversation uses: Codex does not open a conversation whose provider is not
// defined.
func copyOf(file, id, models string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "runnel-codex-"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	into := filepath.Join(dir, "sessions", "2000", "01", "01")
	if err := os.MkdirAll(into, 0o700); err != nil {
		return "", err
	}
	if token().MatchString(models) && models != "openai" {
		config := fmt.Sprintf("[model_providers.%q]\nname = \"none\"\nbase_url = \"http://127.0.0.1:1/v1\"\nwire_api = \"responses\"\n", models)
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
			return "", err
		}
	}
	to, err := os.OpenFile(filepath.Join(into, "rollout-2000-01-01T00-00-00-"+id+".jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	out := bufio.NewWriter(to)
	err = join(out, siblings(file, id), endless)
	return dir, errors.Join(err, out.Flush(), to.Close())
}

// siblings returns the files of the conversation id that are in the folder of
// file, newest first. If the name of file is not that of a rollout, siblings
// returns only file.
func siblings(file, id string) []string {
	if !rollout.MatchString(filepath.Base(file)) {
		return []string{file}
	}
	var files []string
	for _, pattern := range rollouts(id) {
		found, _ := filepath.Glob(filepath.Join(quoteMeta(filepath.Dir(file)), pattern)) // the pattern is valid
		files = append(files, found...)
	}
	slices.SortFunc(files, newestRollout)
	return files
}

var errContinues = errors.New("codex: the file continues a file that is not in the same folder")

// endless is an ordinal after the last line of any file.
const endless = int64(1) << 62

// join writes the valid lines of a conversation's files. files are sorted, the
// newest first. Codex starts another file when a conversation is reverted to an
// earlier turn. The first line of that file has the ordinal at which the older
// files stop being valid. end is that ordinal for files[0].
func join(out io.Writer, files []string, end int64) error {
	if len(files) == 0 {
		return errContinues
	}
	f, _, err := agentconn.OpenPlain(os.OpenFile, files[0])
	if err != nil {
		return err
	}
	defer f.Close()
	lines := jsonl.NewReader(f, maxStored)
	for first := true; ; first = false {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		head := translate.DecodeLenient[struct {
			Ordinal int64 `json:"ordinal"`
			Payload struct {
				Base *struct {
					End int64 `json:"end_ordinal_exclusive"`
				} `json:"history_base"`
			} `json:"payload"`
		}](line)
		if base := head.Payload.Base; first && base != nil {
			if err := join(out, files[1:], min(end, base.End)); err != nil {
				return err
			}
			continue // only the oldest file's description is written
		}
		if head.Ordinal >= end {
			return nil
		}
		if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
			return err
		}
	}
}
