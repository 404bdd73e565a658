package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func hardening(t *testing.T, name string) {
	p := params()
	p.Files = []string{"testdata/hardening/" + name + ".txtar"}
	testscript.Run(t, p)
}

func TestDataDirectoryIsPrivate(t *testing.T)                  { hardening(t, "private") }
func TestCredentialsAreStoredAsHashesOnly(t *testing.T)        { hardening(t, "at-rest") }
func TestListeningBeyondLoopbackNeedsTokenAndTLS(t *testing.T) { hardening(t, "non-loopback") }
func TestPromptsAreNoCommandLineArguments(t *testing.T)        { hardening(t, "dash-prompt") }
