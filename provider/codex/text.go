package codex

import (
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

func oneLine(s string, max int) string     { return text.OneLine(s, max) }
func cut(s string, max int) (string, bool) { return text.Cut(s, max) }

// key and derive are [translate.Key] and [translate.Derive] for this provider.
func key(native string) string    { return translate.Key(providerID, native) }
func derive(native string) string { return translate.Derive(providerID, native) }

func clip(s string, max int) string { return text.Shorten(s, max) }
