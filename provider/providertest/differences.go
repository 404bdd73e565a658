package providertest

// A Difference is a fact of a conversation that is not the same live and when
// it is read from the agent's own history. A test fails for a difference
// without a row, and for a row without a difference.
type Difference struct {
	Agent     string // name of the provider
	Version   string // of the agent; "" for every recorded version
	Recording string // name of the conversation; "*" for any
	Fact      string // as [Parity.Compare] names it; * stands for any text
	Why       string // a sentence for docs/agents.md
}

// Differences are the known differences of all agents.
var Differences = []Difference{
	{"claude-code", "", "*", "session agentSessionId: only live", "Whoever reads a history has named the conversation."},
	{"claude-code", "", "*", "session commands: only live", "The agent does not store which commands it offers."},
	{"claude-code", "", "*", "session modelId: only live", "The agent stores the model with each answer only."},
	{"claude-code", "", "*", "session permissionMode: only live", "The mode of a finished conversation is of no use."},
	{"claude-code", "", "*", "session tools: only live", "The agent does not store which tools it has."},
	{"claude-code", "", "*", "*approvals: only live", "The agent does not store what it asked."},
	{"claude-code", "", "*", "turn *: cost: only live", "The agent does not store what a turn cost."},
	{"claude-code", "", "*", "turn *: context window: only live", "The agent does not store the size of the model's context."},
	{"claude-code", "", "*", "turn *: model", "The model of an answer is stored, without the variant that was asked for."},
	{"claude-code", "", "*", "turn *: notice RETRYING: only live", "The agent does not store that it tried again."},
	{"claude-code", "", "*", "*notice TASK_PROGRESS: only live", "The agent does not store the progress of background tasks."},

	{"claude-code", "", "api-401", "turn 1: end", "Runnel ends the turn and stops the agent, which stores an interruption or nothing."},
	{"claude-code", "2.1.329", "api-401", "turn 1: finish reason: only stored", "Runnel ends the turn and stops the agent, which stores an interruption or nothing."},
	{"claude-code", "2.1.329", "api-401", "turn 1: usage: only stored", "Runnel ends the turn and stops the agent, which stores an interruption or nothing."},
	{"claude-code", "", "login-refused", "turn 1: end", "Runnel ends the turn and stops the agent, which stores an interruption or nothing."},
	{"claude-code", "2.1.329", "login-refused", "turn 1: finish reason: only stored", "Runnel ends the turn and stops the agent, which stores an interruption or nothing."},
	{"claude-code", "2.1.329", "login-refused", "turn 1: usage: only stored", "Runnel ends the turn and stops the agent, which stores an interruption or nothing."},
	{"claude-code", "", "*", "turn *: rate limit: only live", "The agent does not store its limits."},
	{"claude-code", "", "rate-limit", "turn 2: notice RATE_LIMITED: only live", "The agent does not store its limits."},
	{"claude-code", "", "refusal", "turn 1: notice REFUSED: only live", "The agent does not store the refusal as such."},

	{"claude-code", "", "broken-stream", "turn 1: item 1:0: *", "The agent does not store the part of an answer that broke off, so the next answer has its number."},
	{"claude-code", "", "broken-stream", "turn 1: item 2:0: only live", "The agent does not store the part of an answer that broke off, so the next answer has its number."},
	{"claude-code", "", "broken-stream", "turn 1: usage", "The agent does not store the part of an answer that broke off."},
	{"claude-code", "", "short-stream", "turn 1: item 1:0: *", "The agent does not store the part of an answer that broke off, so the next answer has its number."},
	{"claude-code", "", "short-stream", "turn 1: item 2:0: only live", "The agent does not store the part of an answer that broke off, so the next answer has its number."},
	{"claude-code", "", "short-stream", "turn 1: usage", "The agent does not store the part of an answer that broke off."},
	{"claude-code", "2.1.197", "cut-stream", "turn 1: item 1:0: *", "The agent does not store the part of an answer that broke off, so the next answer has its number."},
	{"claude-code", "2.1.197", "cut-stream", "turn 1: item 2:0: only live", "The agent does not store the part of an answer that broke off, so the next answer has its number."},
	{"claude-code", "2.1.197", "cut-stream", "turn 1: usage", "The agent does not store the part of an answer that broke off."},
	{"claude-code", "", "broken-block", "turn 1: item 1:1: only live", "The agent does not store the block that broke off."},
	{"claude-code", "2.1.197", "broken-block", "turn 1: context tokens: only live", "The agent stores no usage of an answer that broke off."},
	{"claude-code", "2.1.197", "cut-tool", "turn 1: usage", "The agent reports no usage of an answer that it asked for again without a stream, and stores it."},
	{"claude-code", "", "empty", "turn 1: usage", "The agent does not store an empty answer."},
	{"claude-code", "", "empty", "turn 1: item 1:0: only stored", "The agent does not store an empty answer, so the next answer has its number."},
	{"claude-code", "", "empty", "turn 1: item 2:0: only live", "The agent does not store an empty answer, so the next answer has its number."},

	{"claude-code", "", "interrupt-arguments", "turn 1: item 1:1: only live", "The agent does not store a call whose arguments were cut off."},
	{"claude-code", "", "interrupt-arguments", "turn 1: usage", "The agent stores no usage of an answer that was cut off."},
	{"claude-code", "", "interrupt-arguments", "turn 1: context tokens: only live", "The agent stores no usage of an answer that was cut off."},
	{"claude-code", "", "interrupt-text", "turn 1: usage", "The agent stores no usage of an answer that was cut off."},
	{"claude-code", "", "interrupt-text", "turn 1: context tokens: only live", "The agent stores no usage of an answer that was cut off."},

	{"claude-code", "2.1.329", "background-agent", "notice TASK_ENDED", "The agent stores a summary of the task in other words than it prints."},
	{"claude-code", "", "background-agent", "turn 2: only live", "A question between two turns is a turn of its own; the agent does not store it."},
	{"claude-code", "2.1.197", "background-in-turn", "turn 1: notice TASK_ENDED: only stored", "The agent prints nothing when the task ends."},
	{"claude-code", "2.1.197", "background-left", "notice TASK_ENDED", "The agent stores the end of a task once, and prints it twice."},
	{"claude-code", "", "background-left", "turn 2: only live", "A question between two turns is a turn of its own; the agent does not store it."},
	{"claude-code", "2.1.197", "background-left", "turn 3: item toolu_d7d7ef54ce_0_1_0/1:1:output: only stored", "The agent stores that the call was stopped after it has closed its output."},
	{"claude-code", "2.1.197", "background-meanwhile", "turn 2: notice TASK_ENDED: only stored", "The agent prints the end of the task only after the turn."},
	{"claude-code", "2.1.329", "background-meanwhile", "turn 2: notice TASK_ENDED", "The agent stores a summary of the task in other words than it prints."},
	{"claude-code", "2.1.197", "subagents", "turn 1: item toolu_e3f410cb3c_1_1_0/*: only stored", "The agent does not print what the subagent of a subagent does."},
	{"claude-code", "", "commands", "turn 1: only live", "Runnel does not read the agent's own commands from its files yet."},
	{"claude-code", "", "compact", "turn 4: only live", "Runnel does not read the agent's own commands from its files yet."},
	{"claude-code", "", "compact", "turn 3: notice COMPACTED: only stored", "Runnel does not read the agent's own commands from its files yet."},
	{"claude-code", "", "clear", "turn 2: only live", "Runnel does not read the agent's own commands from its files yet."},
	{"claude-code", "", "resume-after-kill", "turn 1: only stored", "The recording begins with the second process."},
}
