// Package conformance walks the tables of Runnel's contract row by row, on the
// built program, and writes docs/conformance.md from them. A row is shown by a
// check of its own or by a named test elsewhere in the repository.
package conformance
