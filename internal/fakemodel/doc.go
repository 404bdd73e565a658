// Package fakemodel is a scripted model API on loopback, for driving real agents in tests.
//
// An agent is pointed at [Server.URL] instead of its vendor. What the model
// "says" is decided by the prompt itself, so a test needs no side channel: the
// last user message that holds a directive chooses a [Scenario],
//
//	<<play hello>>                          one of Config.Scenarios or the built-in ones
//	<<play {"steps":[{"text":"Hi."}]}>>     written in place
//
// and the number of assistant messages after it chooses the [Step]. A step that
// calls a tool is therefore followed, once the agent posts the result, by the
// next step. The server keeps no conversation; only the counters of [Failure]
// and [Fault] and the numbering of ids live in it.
//
// A test never sleeps: a step can stop at a named [Gate] and go on when the
// test opens it.
//
// The server speaks Anthropic Messages, OpenAI Responses, OpenAI Chat
// Completions and Gemini, each in the file of its name; a scenario means the
// same in all of them, except for the names of tools and what they take, which
// are the agent's. What agents ask on their own account, titles and the like,
// is answered without a scenario (helper.go). Everything the server was asked is
// kept for the test to read ([Server.Requests]), so it refuses to listen
// anywhere but on loopback.
package fakemodel
