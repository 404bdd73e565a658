// Package archtest tests that documents about the code are correct. The table
// in ARCHITECTURE.md must list the packages and what each may import. The table
// in CONTRIBUTING.md must list the third-party modules and the packages that
// use them.
//
// It contains only tests, which read the whole repository.
package archtest
