package acp

import "github.com/runnel-dev/runnel/internal/translate"

// key returns a native id in a form that can be part of an item id.
func key(native string) string { return translate.Key("acp", native) }

// derive returns a UUID that depends only on the text native.
func derive(native string) string { return translate.Derive("acp", native) }
