// Package hostile lets programs under an agent attack the server that runs it,
// and looks at what they get and what they leave; it also lets agents run for
// long while things are killed.
package hostile
