//go:build unix

package codex

import (
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/providertest"
)

func TestEndings(t *testing.T) {
	providertest.RunExits(t, providertest.ShellAgent{
		Open: `  *'"method":"initialize"'*) reply '{"userAgent":"runnel"}' ;;
  *'"account/read"'*) reply '{"account":null,"requiresOpenaiAuth":false}' ;;
  *'"thread/start"'*|*'"thread/resume"'*) reply '{"thread":{"id":"t1"},"model":"m","approvalPolicy":"on-request","sandbox":{"type":"workspaceWrite"}}' ;;
  *'"model/list"'*) reply '{"data":[]}' ;;`,
		Prompt: `*'"turn/start"'*`,
		Begin: `n=$((n+1))
turn='"threadId":"t1","turn":{"id":"u'$n'","items":[]'
reply '{"turn":{"id":"u'$n'","status":"inProgress"}}'
echo '{"method":"turn/started","params":{'"$turn"',"status":"inProgress"}}}'`,
		Answer: `echo '{"method":"item/started","params":{"threadId":"t1","turnId":"u'$n'","item":{"type":"agentMessage","id":"m'$n'","text":""}}}'
echo '{"method":"item/completed","params":{"threadId":"t1","turnId":"u'$n'","item":{"type":"agentMessage","id":"m'$n'","text":"Answer."}}}'
echo '{"method":"turn/completed","params":{'"$turn"',"status":"completed","error":null}}}'`,
	}, func(path string) runnel.Provider { return New().WithProgram([]string{path}, nil) })
}
