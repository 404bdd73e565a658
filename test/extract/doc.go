// Package extract compares the output of runnel translate for every recording
// with the findings of a second reader of the raw lines.
//
// The second reader shares no code with the program. It knows the protocols
// only from the recordings. Both report texts, reasoning, the arguments and
// outputs of tools, how turns end, and their usage.
package extract
