package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// frames calls f with each frame of a stream of server-sent events, in the JSON
// form that the document describes. It stops when f reports enough.
func frames(body io.Reader, f func(frame json.RawMessage) (enough bool, err error)) error {
	in := bufio.NewReader(body)
	at := make(map[string]string)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the stream ended: %w", err)
		}
		line = strings.TrimSuffix(line, "\n")
		if line != "" {
			name, value, _ := strings.Cut(line, ":")
			at[name] = strings.TrimPrefix(value, " ") // a comment line has an empty name
			continue
		}
		if at["event"] != "" {
			frame, err := assemble(at)
			if err != nil {
				return err
			}
			if enough, err := f(frame); err != nil || enough {
				return err
			}
		}
		clear(at)
	}
}

func assemble(fields map[string]string) (json.RawMessage, error) {
	frame := map[string]any{"event": fields["event"], "data": json.RawMessage(fields["data"])}
	if id := fields["id"]; id != "" {
		frame["id"] = id
	}
	return json.Marshal(frame)
}
