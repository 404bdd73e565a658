package acp

import "github.com/runnel-dev/runnel/internal/translate"

// maxNativeID bounds the agent's ids that a turn holds, in bytes.
const maxNativeID = 1000

// nativeID returns a native id, or a short id in place of a long one. A turn
// holds thousands of ids.
func nativeID(native string) string {
	if len(native) <= maxNativeID {
		return native
	}
	return derive(native)
}

// key returns a native id in a form that can be part of an item id.
func key(native string) string { return translate.Key("acp", native) }

// derive returns a UUID that depends only on the text native.
func derive(native string) string { return translate.Derive("acp", native) }
