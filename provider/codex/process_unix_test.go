//go:build unix

package codex

import (
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// asksBetweenTurns is an agent that answers each prompt, and then asks out of
// turn, always under the same ids.
const asksBetweenTurns = `#!/bin/sh
reply() { printf '{"id":%s,"result":%s}\n' "$(printf '%s' "$line" | sed -n 's/^[^"]*"id":\("[^"]*"\|[0-9]*\),.*/\1/p')" "$1"; }
while read -r line; do
  case $line in
  *'"method":"initialize"'*) reply '{"userAgent":"runnel"}' ;;
  *'"account/read"'*) reply '{"account":null,"requiresOpenaiAuth":false}' ;;
  *'"thread/start"'*|*'"thread/resume"'*) reply '{"thread":{"id":"t1"},"model":"m","approvalPolicy":"on-request","sandbox":{"type":"workspaceWrite"}}' ;;
  *'"model/list"'*) reply '{"data":[]}' ;;
  *'"turn/start"'*)
    reply '{"turn":{"id":"u","status":"inProgress"}}'
    echo '{"method":"turn/started","params":{"threadId":"t1","turn":{"id":"u","items":[],"status":"inProgress"}}}'
    echo '{"method":"turn/completed","params":{"threadId":"t1","turn":{"id":"u","items":[],"status":"completed","error":null}}}'
    echo '{"method":"mcpServer/elicitation/request","id":0,"params":{"threadId":"t1","turnId":null,"serverName":"s","mode":"url","message":"m","url":"https://example.com/"}}' ;;
  *'"id":0'*) echo '{"method":"serverRequest/resolved","params":{"threadId":"t1","requestId":0}}' ;;
  esac
done
`

func TestEachProcessOfASessionCanAskUnderTheSameRequestID(t *testing.T) {
	t.Parallel()
	providertest.RunReusedRequestIDs(t, asksBetweenTurns, func(path string) runnel.Provider { return New().WithProgram([]string{path}, nil) })
}
