// Package docs runs the examples of the pages in docs/ against the built
// program: the commands of api.md, the frames and messages of streams.md, and
// the scripts that the pages name. With -update the tests write the responses
// of the run into the pages.
package docs
