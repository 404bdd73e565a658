//go:build !linux

package filepages

import "context"

// Mappings are address ranges.
type Mappings struct{}

// Find returns nothing on this system.
func Find() Mappings { return Mappings{} }

// Drop does nothing on this system.
func (Mappings) Drop() {}

// WhileIdle does nothing on this system. It returns when ctx is done.
func WhileIdle(ctx context.Context) { <-ctx.Done() }
