// Package docs runs what the pages in docs/ show, against the built program:
// the commands of api.md, the frames and messages of streams.md, and the
// scripts that the pages name. With -update the tests write the answers that
// they got into the pages.
package docs
