package httpapi

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/upsert"
)

// A describer adds to the OpenAPI document what cannot be derived from the Go
// types of the bodies: options, attachments, and what streams carry.
type describer struct {
	reg     *schemas
	carried stream.Document
}

// schema returns a reference to the component of v's type. If that type is not
// a component, it returns the schema itself.
func (d describer) schema(v any) *huma.Schema { return d.reg.Schema(reflect.TypeOf(v), true, "") }

// component returns the schema of v's type, which must be a component.
func (d describer) component(v any) *huma.Schema { return d.reg.Schema(reflect.TypeOf(v), false, "") }

// bodies describes the fields that the handlers decode themselves.
func (d describer) bodies() {
	for _, v := range []any{runnel.Options{}, runnel.Settings{}} {
		s := d.component(v)
		s.AdditionalProperties = true
		s.Description = "An unknown field is ignored; the response then has a warning. A known field in another letter case is an error. An option that the agent does not accept fails with UNSUPPORTED_CAPABILITY, an invalid value with INVALID_REQUEST."
	}
	describeChoices(d.component(runnel.Options{}), d.component(runnel.Settings{}), d.schema(profile.Governance{}))
	for _, s := range d.reg.named {
		d.fields(s)
	}
	d.reg.named["HarnessCreateRequest"].Properties["opts"] = d.schema(runnel.Options{})
}

// known completes all components. Components and fields without a description
// get one from [stream.Meaning]; mcpServers and details become objects with any
// members.
func (d describer) known() {
	meaning := d.carried.Meaning
	for component, s := range d.reg.named {
		s.Description = cmp.Or(s.Description, meaning.Types[component])
		for name, p := range s.Properties {
			p.Description = cmp.Or(p.Description, meaning.Fields[component+"."+name])
			if p.Description == "" && p.Ref == "" {
				p.Description = meaning.Fields[name]
			}
		}
		for _, name := range []string{"mcpServers", "details"} {
			if p := s.Properties[name]; p != nil {
				p.Type, p.AdditionalProperties = huma.TypeObject, true
			}
		}
	}
}

// fields describes the fields of a request that are raw JSON in Go: options,
// opts and attachments.
func (d describer) fields(s *huma.Schema) {
	for name, v := range map[string]any{"options": runnel.Options{}, "opts": runnel.Settings{}} {
		if p := s.Properties[name]; p != nil && p.Ref == "" && p.Type == "" {
			s.Properties[name] = d.schema(v)
		}
	}
	if p := s.Properties["attachments"]; p != nil && p.Items != nil && p.Items.Ref == "" {
		p.Items = &huma.Schema{
			OneOf:       []*huma.Schema{{Type: huma.TypeString}, d.schema(attach.Ref{})},
			Description: "The absolute path of a file, or an object with either its path or the uploadId of an upload.",
		}
	}
}

// streams describes the frames of SSE streams, the lines of an export and of a
// debug capture, and the messages of the WebSocket.
func (d describer) streams(doc *huma.OpenAPI) {
	d.finalItem()
	d.events()
	d.upserts()
	d.turnEvents()
	d.entries()
	turn := doc.Paths["/api/harness/turn"].Post
	turn.Description += " To resume after a frame, pass its id as after to GET /api/session/{id}/events."
	answer(turn, "text/event-stream").Schema = d.turnFrames()
	answer(doc.Paths["/api/session/{id}/events"].Get, "text/event-stream").Schema = d.eventFrames()
	lines := answer(doc.Paths["/api/session/{id}/export"].Get, "application/jsonl")
	lines.Schema = &huma.Schema{Ref: ref("Event").Ref, Description: "Each line is one event."}
	captured := answer(doc.Paths["/api/session/{id}/capture"].Get, "application/jsonl")
	captured.Schema = &huma.Schema{Ref: d.schema(capturedLine{}).Ref, Description: "Each line is one raw line."}
	doc.Extensions = map[string]any{"x-websocket": map[string]any{
		"path": "/api/ws", "subprotocol": stream.Subprotocol, "scope": auth.Read, "families": stream.Families(),
		"client": d.clientMessages(), "server": d.serverMessages(),
		"description": "Messages are JSON text in both directions. A client chooses its family with session:hello as its first message; otherwise it gets the server's default family. " +
			"The server answers a message that has a requestId with a response or an error that has the same requestId.",
	}}
}

// requests returns the schemas of everything that a client sends.
func (d describer) requests(doc *huma.OpenAPI) (out []*huma.Schema) {
	each(doc, func(op *huma.Operation) {
		if op.RequestBody != nil {
			for _, m := range op.RequestBody.Content {
				out = append(out, m.Schema)
			}
		}
	})
	return append(out, ref("ClientMessage"))
}

// answers returns the schemas of everything that the server sends.
func (d describer) answers(doc *huma.OpenAPI) (out []*huma.Schema) {
	each(doc, func(op *huma.Operation) {
		for _, res := range op.Responses {
			for _, m := range res.Content {
				out = append(out, m.Schema)
			}
		}
	})
	return append(out, ref("ServerMessage"))
}

func each(doc *huma.OpenAPI, f func(*huma.Operation)) {
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				f(op)
			}
		}
	}
}

func answer(op *huma.Operation, media string) *huma.MediaType {
	return op.Responses["200"].Content[media]
}

// union defines a component that is one of members. The value of property
// determines which member an object is.
func (d describer) union(name, property, about string, members map[string]*huma.Schema) *huma.Schema {
	s := &huma.Schema{Description: about, Discriminator: &huma.Discriminator{PropertyName: property, Mapping: make(map[string]string)}}
	for _, value := range slices.Sorted(maps.Keys(members)) {
		one := members[value]
		s.Discriminator.Mapping[value] = one.Ref
		if !slices.ContainsFunc(s.OneOf, func(o *huma.Schema) bool { return o.Ref == one.Ref }) {
			s.OneOf = append(s.OneOf, one)
		}
	}
	return d.reg.define(name, s)
}

// variant returns a copy of the object schema s in which property is required
// and must have one of values.
func variant(s *huma.Schema, property string, values ...string) *huma.Schema {
	out := *s
	out.Properties = maps.Clone(s.Properties)
	out.Properties[property] = &huma.Schema{Type: huma.TypeString}
	for _, v := range values {
		out.Properties[property].Enum = append(out.Properties[property].Enum, v)
	}
	return require(&out, property)
}

// require adds names to the required properties of s, and returns s.
func require(s *huma.Schema, names ...string) *huma.Schema {
	all := slices.Sorted(slices.Values(append(slices.Clone(s.Required), names...)))
	s.Required = slices.Compact(all)
	return s
}

// object returns the schema of an object with these properties, all required.
func object(properties map[string]*huma.Schema) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, Properties: properties, Required: slices.Sorted(maps.Keys(properties)), AdditionalProperties: false,
	}
}

// camel turns a name on the wire, such as session:hello:ack or item_start, into
// the name of a component, such as SessionHelloAck.
func camel(wire string) string {
	var out strings.Builder
	for part := range strings.FieldsFuncSeq(wire, func(r rune) bool { return r == ':' || r == '_' }) {
		out.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return out.String()
}

func (d describer) finalItem() {
	members := make(map[string]*huma.Schema)
	for typ, v := range d.carried.Items {
		members[typ] = d.reg.define(camel(typ)+"Item", variant(d.reg.fields(v), "type", typ))
	}
	d.union("FinalItem", "type", "The complete content of a finished item.", members)
}

// events describes canonical events. For the type item_start, the component
// ItemStart is the payload and ItemStartEvent the whole event.
func (d describer) events() {
	members := make(map[string]*huma.Schema)
	for typ, body := range d.carried.Payloads {
		payload := variant(d.reg.fields(body), "type", typ)
		if payload.Properties["finalItem"] != nil {
			payload.Properties["finalItem"] = ref("FinalItem")
		}
		ev := variant(d.reg.fields(d.carried.Event), "type", typ)
		ev.Properties["payload"] = d.reg.define(camel(typ), payload)
		ev.Description = d.carried.Meaning.Events[typ]
		members[typ] = d.reg.define(camel(typ)+"Event", ev)
	}
	d.union("Event", "type", "An event of a session's log.", members)
}

// upserts describes whole items. Each kind of item has a component with one
// property of its own, which has the name of the kind.
func (d describer) upserts() {
	members := make(map[string]*huma.Schema)
	kinds := d.reg.enums[reflect.TypeFor[upsert.Kind]()]
	for _, kind := range kinds {
		name := string(kind.(upsert.Kind))
		s := require(variant(d.reg.fields(upsert.Upsert{}), "type", name), name)
		for _, other := range kinds {
			if other != kind {
				delete(s.Properties, string(other.(upsert.Kind)))
			}
		}
		members[name] = d.reg.define(camel(name)+"Upsert", s)
	}
	d.union("Upsert", "type", "The current state of an item. It replaces everything that a client knew about the item.", members)
}

// turnEvents describes the beginning of a turn and its two kinds of end. Each
// has properties of its own.
func (d describer) turnEvents() {
	own := map[upsert.TurnEventType][]string{
		upsert.TurnStarted: {"providerId", "modelId"}, upsert.TurnComplete: {"status", "usage"}, upsert.TurnError: {"errorCode", "errorMessage"},
	}
	members := make(map[string]*huma.Schema)
	for typ, mine := range own {
		s := require(variant(d.reg.fields(upsert.TurnEvent{}), "type", string(typ)), mine[0])
		for other, theirs := range own {
			for _, name := range theirs {
				if other != typ {
					delete(s.Properties, name)
				}
			}
		}
		members[string(typ)] = d.reg.define(camel(string(typ)), s)
	}
	require(d.reg.named["TurnError"], "errorMessage")
	d.reg.named["TurnComplete"].Properties["status"] = &huma.Schema{Type: huma.TypeString, Enum: []any{"completed", "cancelled"}}
	d.union("TurnEvent", "type", "The beginning or the end of a turn.", members)
}

// live returns the schema of the payload v of a message about a session.
func (d describer) live(v any) *huma.Schema {
	switch v.(type) {
	case upsert.Upsert:
		return ref("Upsert")
	case upsert.TurnEvent:
		return ref("TurnEvent")
	case stream.EventDocument:
		return ref("Event")
	}
	return d.schema(v)
}

// entries describes the entries of a history in the family upsert-v1. Each has
// the type and the payload of a live message.
func (d describer) entries() {
	members := make(map[string]*huma.Schema)
	for typ, v := range d.carried.Live {
		if typ == "session:event" || typ == "session:status" {
			continue
		}
		s := variant(object(map[string]*huma.Schema{"payload": d.live(v)}), "type", typ)
		members[typ] = d.reg.define(camel(typ)+"Entry", s)
	}
	entry := d.union("Entry", "type", "An entry of a session's history, with the type and the payload of the corresponding live message.", members)
	d.component(stream.ItemsAnswer{}).Properties["items"].Items = entry
}

// turnFrames describes the stream of a turn.
func (d describer) turnFrames() *huma.Schema {
	members := make(map[string]*huma.Schema)
	for name, v := range d.carried.Frames {
		members[name] = d.frame(name, v, "id")
	}
	members["stream:end"] = d.streamEnd()
	return d.union("TurnFrame", "event", "A frame of a turn's stream.", members)
}

// eventFrames describes the stream of a session's events.
func (d describer) eventFrames() *huma.Schema {
	types := slices.Sorted(maps.Keys(d.carried.Payloads))
	frame := variant(require(sseFrameOf(ref("Event")), "id"), "event", types...)
	frame.Description = "An event of the session's log."
	one := d.reg.define("EventFrame", frame)
	members := map[string]*huma.Schema{"stream:open": d.frame("stream:open", d.carried.Control["stream:open"]), "stream:end": ref("StreamEndFrame")}
	for _, typ := range types {
		members[typ] = one
	}
	return d.union("SessionFrame", "event", "A frame of a session's event stream: first stream:open, then events of the log, and stream:end if the server ends the stream.", members)
}

func (d describer) streamEnd() *huma.Schema {
	end := variant(d.reg.fields(d.carried.Control["stream:end"]), "type", "stream:end")
	s := variant(sseFrameOf(d.reg.define("EndData", end)), "event", "stream:end")
	s.Description = d.carried.Meaning.Frames["stream:end"]
	return d.reg.define("StreamEndFrame", s)
}

// frame defines the component of an SSE frame whose data has v's type.
func (d describer) frame(name string, v any, required ...string) *huma.Schema {
	s := variant(require(sseFrameOf(d.schema(v)), required...), "event", name)
	s.Description = d.carried.Meaning.Frames[name]
	return d.reg.define(camel(name)+"Frame", s)
}

func sseFrameOf(data *huma.Schema) *huma.Schema {
	s := object(map[string]*huma.Schema{"data": data})
	s.Properties["id"] = &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9]+$", Description: "Position to resume after."}
	return s
}

// clientMessages describes the messages of a client of the WebSocket.
func (d describer) clientMessages() *huma.Schema {
	members := make(map[string]*huma.Schema)
	for typ, v := range d.carried.Client {
		s := variant(d.reg.fields(v), "type", typ)
		d.fields(s)
		s.Description = d.carried.Meaning.Client[typ]
		members[typ] = d.reg.define(camel(typ)+"Message", s)
	}
	return d.union("ClientMessage", "type", "A message from a client on the WebSocket.", members)
}

// serverMessages describes the messages of the server on the WebSocket.
func (d describer) serverMessages() *huma.Schema {
	members := make(map[string]*huma.Schema)
	for typ, v := range d.carried.Server {
		s := variant(d.reg.fields(v), "type", typ)
		if p := s.Properties["entries"]; p != nil {
			p.Items = d.reg.define("HistoryEntry", &huma.Schema{
				OneOf:       []*huma.Schema{ref("Entry"), ref("Event")},
				Description: "In the family events-v1, an event of the session's log. In the family upsert-v1, an entry.",
			})
		}
		s.Description = d.carried.Meaning.Server[typ]
		members[typ] = d.reg.define(camel(typ)+"Message", s)
	}
	for typ, v := range d.carried.Live {
		s := variant(object(map[string]*huma.Schema{"payload": d.live(v), "sessionId": {Type: huma.TypeString}}), "type", typ)
		s.Description = d.carried.Meaning.Server[typ]
		members[typ] = d.reg.define(camel(typ)+"Message", s)
	}
	return d.union("ServerMessage", "type", "A message from the server on the WebSocket.", members)
}
