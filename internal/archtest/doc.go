// Package archtest keeps the documents about the code true: the table of
// ARCHITECTURE.md is the list of packages and of what each may import, and the
// table of CONTRIBUTING.md is the list of foreign modules and of who uses them.
//
// It has no code of its own; its tests read the whole tree.
package archtest
