package acp

import "github.com/runnel-dev/runnel/internal/translate"

// key returns a native id in a form that can be part of one of ours.
func key(native string) string { return translate.Key("acp", native) }

// derive returns a UUID made of a native id.
func derive(native string) string { return translate.Derive("acp", native) }
