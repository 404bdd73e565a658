//go:build unix

package acp

import (
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/providertest"
)

func TestEndings(t *testing.T) {
	providertest.RunExits(t, providertest.ShellAgent{
		Open: `  *'"initialize"'*) reply '{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}' ;;
  *'"session/new"'*|*'"session/resume"'*) reply '{"sessionId":"s1"}' ;;`,
		Prompt: `*'"session/prompt"'*`,
		Answer: `echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Answer."}}}}'
reply '{"stopReason":"end_turn"}'`,
	}, func(path string) runnel.Provider {
		return New(Agent{Name: "small", Command: []string{path}, Resumes: true})
	})
}

// asksInTurns is an agent that asks in each turn, always under the same id, and
// ends the turn after the answer.
const asksInTurns = `#!/bin/sh
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^[^"]*"jsonrpc":"2.0","id":\("[^"]*"\|[0-9]*\),.*/\1/p')
  case $line in
  *'"initialize"'*) reply "$id" '{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}' ;;
  *'"session/new"'*|*'"session/resume"'*) reply "$id" '{"sessionId":"s1"}' ;;
  *'"session/prompt"'*)
    prompt=$id
    echo '{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c","title":"ls","kind":"execute","rawInput":{"command":"ls"}},"options":[{"optionId":"a","name":"Yes","kind":"allow_once"},{"optionId":"r","name":"No","kind":"reject_once"}]}}' ;;
  *'"outcome"'*) reply "$prompt" '{"stopReason":"end_turn"}' ;;
  esac
done
`

func TestEachProcessOfASessionCanAskUnderTheSameRequestID(t *testing.T) {
	t.Parallel()
	providertest.RunReusedRequestIDs(t, asksInTurns, func(path string) runnel.Provider {
		return New(Agent{Name: "small", Command: []string{path}, Resumes: true})
	})
}
