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

func TestA04_DataIsPrivate(t *testing.T)         { hardening(t, "private") }
func TestA05_SecretsAreNowhere(t *testing.T)     { hardening(t, "at-rest") }
func TestA06_NonLoopbackIsRefused(t *testing.T)  { hardening(t, "non-loopback") }
func TestC01_PromptsAreNoArguments(t *testing.T) { hardening(t, "dash-prompt") }
