// Package conformance checks the tables of Runnel's contract row by row and
// writes docs/conformance.md from them. A row is proved by its own check or by
// a named test elsewhere in the repository. Checks of the API and its streams
// use the built program. Checks of options, profiles, gates, rules and the
// library call the package that decides.
package conformance
