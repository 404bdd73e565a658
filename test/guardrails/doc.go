// Package guardrails runs hostile programs as tools of agents in a sandbox of
// the built program, and checks that they reach nothing outside of it. The
// agents are real, and their model is scripted.
package guardrails
