// Package fakemodel is a scripted model API on loopback. Tests use it to run
// real agents without a vendor.
//
// An agent sends its requests to [Server.URL] instead of its vendor. The prompt
// itself chooses the answer: the last user message that contains a directive
// chooses a [Scenario],
//
//	<<play hello>>                          one of Config.Scenarios or the built-in ones
//	<<play {"steps":[{"text":"Hi."}]}>>     written in place
//
// and the number of assistant messages after it chooses the [Step]. So after a
// step that calls a tool, the request with the tool's result gets the next
// step. The server stores no conversation. It has only the counters of
// [Failure] and [Fault] and the counters for ids.
//
// A test need not sleep: a step can wait at a named [Gate] until the test opens
// the gate.
//
// The server implements Anthropic Messages, OpenAI Responses, OpenAI Chat
// Completions and Gemini. A scenario means the same in all of them; only the
// names and the arguments of tools depend on the agent. The server answers
// requests that an agent makes without a prompt, for example for a title,
// without a scenario (helper.go).
//
// The server keeps all requests for the test ([Server.Requests]). They can
// contain secrets, so the server listens only on loopback.
package fakemodel
