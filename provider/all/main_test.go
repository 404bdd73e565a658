package all

import (
	"os"
	"testing"

	"github.com/runnel-dev/runnel/internal/testcache"
)

func TestMain(m *testing.M) { os.Exit(testcache.Main{M: m}.Run()) }
