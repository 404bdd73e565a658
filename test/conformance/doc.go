// Package conformance walks the tables of Runnel's contract row by row and
// writes docs/conformance.md from them. A row is shown by a check of its own or
// by a named test elsewhere in the repository. Checks of the API and its streams
// use the built program; checks of options, profiles, gates, rules and the
// library call the package that decides.
package conformance
