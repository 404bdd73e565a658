// Package extract compares what runnel translate makes of every recording with
// what a second reader finds in the raw lines.
//
// The second reader shares no code with the program. It knows the protocols
// from the recordings alone: texts, reasoning, arguments and outputs of tools,
// how turns end, and what they used.
package extract
