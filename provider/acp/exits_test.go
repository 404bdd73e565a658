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
