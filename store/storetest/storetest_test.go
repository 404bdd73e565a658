package storetest_test

import (
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
	memorystore "github.com/runnel-dev/runnel/store/memory"
	"github.com/runnel-dev/runnel/store/storetest"
)

func memory(*testing.T) runnel.Log { return new(runnel.Memory) }

func TestMemory(t *testing.T) { storetest.RunLog(t, memory) }
func TestSubscribeToMemoryWhileAppendingMissesNothing(t *testing.T) {
	storetest.RunSubscribeRace(t, memory)
}

func TestMemoryCatalogue(t *testing.T) {
	storetest.RunCatalogue(t, func(*testing.T) (runnel.Log, store.Catalogue) {
		log := new(runnel.Memory)
		return log, memorystore.New(log)
	})
}
