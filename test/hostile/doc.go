// Package hostile runs programs under an agent that attack the server, and
// checks what they reach and what they leave behind. It also fuzzes and floods
// the server, and runs agents for a long time while processes are killed.
package hostile
