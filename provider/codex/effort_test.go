package codex

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// The handshake rejects an effort that the conversation's model does not
// support, whichever of the two responses arrives first. A shell script stands
// in for an agent that lists its models.
func TestUnsupportedEffortIsRejected(t *testing.T) {
	const program = `#!/bin/sh
models='{"data":[{"model":"small","supportedReasoningEfforts":[]},{"model":"large","supportedReasoningEfforts":[{"reasoningEffort":"low"},{"reasoningEffort":"high"}]}]}'
while read -r line; do
	id=${line#*\"id\":}
	id=${id%%,*}
	id=${id%%\}*}
	case $line in
	*'"initialize"'*) echo '{"id":'"$id"',"result":{}}' ;;
	*'"account/read"'*) echo '{"id":'"$id"',"result":{"account":null,"requiresOpenaiAuth":false}}' ;;
	*'"thread/start"'*)
		model=${line#*\"model\":\"}
		opened='{"id":'"$id"',"result":{"thread":{"id":"t"},"model":"'"${model%%\"*}"'","sandbox":{"type":"workspaceWrite"},"approvalPolicy":"on-request"}}'
		;;
	*'"model/list"'*)
		listed='{"id":'"$id"',"result":'"$models"'}'
		FIRST
		;;
	esac
done
`
	for name, first := range map[string]string{
		"conversation before models": `echo "$opened"; echo "$listed"`,
		"models before conversation": `echo "$listed"; echo "$opened"`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "codex")
			if err := testexec.Write(path, strings.Replace(program, "FIRST", first, 1)); err != nil {
				t.Fatal(err)
			}
			for _, tt := range []struct {
				model, effort string
				want          runnel.Code
			}{
				{"small", "low", runnel.InvalidRequest},
				{"large", "max", runnel.InvalidRequest},
				{"large", "high", ""},
				{"unlisted", "max", ""}, // a model that the user configured
				{"small", "", ""},
			} {
				opt := runnel.Options{Path: path, Dir: t.TempDir(), Model: tt.model, ReasoningEffort: tt.effort}
				s, err := runnel.Open(t.Context(), New(), opt, runnel.Config{})
				if runnel.CodeOf(err) != tt.want {
					t.Errorf("%s with %s: got %v, want %q", tt.model, tt.effort, err, tt.want)
				}
				if err == nil {
					_ = s.Close()
				}
			}
		})
	}
}
