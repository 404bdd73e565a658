package httpapi

import (
	"maps"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// A describer adds to the OpenAPI document what the Go types of the bodies do not
// tell: options, attachments, and what streams carry.
type describer struct {
	reg     huma.Registry
	carried stream.Document
}

// schema returns a reference to the schema of v's type.
func (d describer) schema(v any) *huma.Schema { return d.reg.Schema(reflect.TypeOf(v), true, "") }

// bodies describes the fields of bodies that the handlers decode themselves.
func (d describer) bodies() {
	options, settings := d.schema(runnel.Options{}), d.schema(runnel.Settings{})
	for _, ref := range []*huma.Schema{options, settings} {
		s := d.reg.SchemaFromRef(ref.Ref)
		s.AdditionalProperties = true
		s.Description = "An unknown field is ignored, with a warning in the answer. An option that the agent lacks is refused; so is a value that it does not have."
	}
	attachment := &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, d.schema(attach.Ref{})},
		Description: "An absolute path, alone or as path, or the uploadId of an upload.",
	}
	d.schema(stream.Describe().Client["session:send"])
	for _, s := range d.reg.Map() {
		for name, kind := range map[string]*huma.Schema{"options": options, "opts": settings} {
			if p := s.Properties[name]; p != nil && p.Ref == "" && p.Type == "" {
				s.Properties[name] = kind
			}
		}
		if p := s.Properties["attachments"]; p != nil && p.Items != nil && p.Items.Ref == "" {
			p.Items = attachment
		}
	}
	d.reg.Map()["HarnessCreateRequest"].Properties["opts"] = options
}

// streams describes the frames of SSE streams and the messages of the WebSocket.
// OpenAPI 3.1 has no words for them, so they are extensions: schemas by the names
// of frames and the types of messages.
func (d describer) streams(doc *huma.OpenAPI) {
	d.events()
	control, turn := d.named(d.carried.Control), d.named(d.carried.Frames)
	turn["stream:end"] = control["stream:end"]
	events := maps.Clone(control)
	for typ := range d.carried.Payloads {
		events[typ] = d.schema(d.carried.Event)
	}
	server := d.named(d.carried.Server)
	for typ, payload := range d.named(d.carried.Live) {
		server[typ] = live(typ, payload)
	}
	describeSSE(doc.Paths["/api/harness/turn"].Post, "The name of a frame is its event, its data one line of JSON, its id the position to resume after.", turn)
	describeSSE(doc.Paths["/api/session/{id}/events"].Get, "A frame between stream:open and stream:end is an event of the session's log.", events)
	ws := doc.Paths["/api/ws"].Get
	ws.Description += " Messages are JSON text, either way. A client begins with session:hello or gets the server's default family. " +
		"A message with a requestId is answered by response or error with the same requestId."
	ws.Extensions = map[string]any{"x-messages": map[string]any{"client": d.typed(d.carried.Client), "server": server}}
}

// events describes canonical events, and the entries of histories.
func (d describer) events() {
	payloads := d.typed(d.carried.Payloads)
	e := d.reg.SchemaFromRef(d.schema(d.carried.Event).Ref)
	e.Properties["payload"] = &huma.Schema{OneOf: slices.Collect(maps.Values(payloads))}
	e.Properties["type"].Enum = names(d.carried.Payloads)

	var entries []*huma.Schema
	for typ, payload := range d.named(d.carried.Live) {
		if typ == "session:event" || typ == "session:status" {
			continue
		}
		entries = append(entries, &huma.Schema{
			Type: huma.TypeObject, Required: []string{"type", "payload"}, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString, Enum: []any{typ}}, "payload": payload},
		})
	}
	d.reg.Map()["ItemsAnswer"].Properties["items"].Items = &huma.Schema{OneOf: entries}
	history := d.reg.SchemaFromRef(d.schema(d.carried.Server["session:history"]).Ref)
	history.Properties["entries"].Items = &huma.Schema{OneOf: append(entries, d.schema(d.carried.Event))}
}

// named returns references to the schemas of values, by their names.
func (d describer) named(values map[string]any) map[string]*huma.Schema {
	out := make(map[string]*huma.Schema)
	for name, v := range values {
		out[name] = d.schema(v)
	}
	return out
}

// typed is named for objects whose field type is their name.
func (d describer) typed(values map[string]any) map[string]*huma.Schema {
	out := make(map[string]*huma.Schema)
	for name, v := range values {
		s := *d.reg.SchemaFromRef(d.schema(v).Ref)
		s.Properties = maps.Clone(s.Properties)
		s.Properties["type"] = &huma.Schema{Type: huma.TypeString, Enum: []any{name}}
		s.Required = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(s.Required), "type"))))
		out[name] = &s
	}
	return out
}

// live is a message about a session.
func live(typ string, payload *huma.Schema) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, Required: []string{"type", "sessionId", "payload"}, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{
			"type": {Type: huma.TypeString, Enum: []any{typ}}, "sessionId": {Type: huma.TypeString}, "payload": payload,
		},
	}
}

func describeSSE(op *huma.Operation, about string, frames map[string]*huma.Schema) {
	op.Description += " " + about
	content := op.Responses["200"].Content["text/event-stream"]
	content.Extensions = map[string]any{"x-frames": frames}
}

func names(values map[string]any) (out []any) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, name)
	}
	return out
}
