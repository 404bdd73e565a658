package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
)

// Handler returns a handler that redacts messages and attributes of any type
// before it passes them to h.
func (r *Redactor) Handler(h slog.Handler) slog.Handler { return handler{h, r} }

type handler struct {
	below slog.Handler
	r     *Redactor
}

func (h handler) Enabled(ctx context.Context, l slog.Level) bool { return h.below.Enabled(ctx, l) }

func (h handler) Handle(ctx context.Context, rec slog.Record) error {
	clean := slog.NewRecord(rec.Time, rec.Level, h.r.String(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.r.attr(a))
		return true
	})
	return h.below.Handle(ctx, clean)
}

func (h handler) WithAttrs(as []slog.Attr) slog.Handler {
	as = slices.Clone(as)
	for i := range as {
		as[i] = h.r.attr(as[i])
	}
	return handler{h.below.WithAttrs(as), h.r}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.below.WithGroup(name), h.r} }

func (r *Redactor) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(r.String(v.String()))
	case slog.KindGroup:
		group := slices.Clone(v.Group())
		for i := range group {
			group[i] = r.attr(group[i])
		}
		v = slog.GroupValue(group...)
	case slog.KindAny:
		v = r.any(v)
	}
	return slog.Attr{Key: r.String(a.Key), Value: v}
}

// any returns v unchanged, or its redacted text if a printed form of v contains
// a secret.
func (r *Redactor) any(v slog.Value) slog.Value {
	if err, ok := v.Any().(error); ok {
		return slog.StringValue(r.String(err.Error()))
	}
	text := fmt.Sprintf("%+v", v.Any())
	if red := r.String(text); red != text {
		return slog.StringValue(red)
	}
	if doc, err := json.Marshal(v.Any()); err == nil {
		if red := r.raw(doc); string(red) != string(doc) {
			return slog.StringValue(string(red))
		}
	}
	return v
}
