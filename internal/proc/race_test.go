//go:build race

package proc

import "time"

const raceSlack = time.Second // everything takes longer
