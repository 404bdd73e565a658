package gateway

import (
	"errors"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store/memory"
)

// storeError keeps the reason with which a log rejects an invalid event.
// Clients do not see the text of other errors.
func TestStoreErrorKeepsTheReasonOfARefusedEvent(t *testing.T) {
	var log memory.Log
	refused := log.Append(t.Context(), "s", 0, event.Event{Session: "s", Seq: 1, Body: event.ItemStart{}})
	if err := storeError(refused); runnel.CodeOf(err) != runnel.InvalidStreamEvent {
		t.Errorf("got %v, want %s", err, runnel.InvalidStreamEvent)
	}
	if err := storeError(errors.New("disk I/O error")); runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Errorf("got %v, want %s", err, runnel.StoreUnavailable)
	}
}
