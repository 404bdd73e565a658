package runnel_test

import (
	"context"
	"fmt"
	"log"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

func Example() {
	ctx := context.Background()
	agent := script.New() // or any other provider
	run, err := runnel.Start(ctx, agent, runnel.Options{}, runnel.Text("text"))
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()

	for ev, err := range run.Events(ctx) { // live; may be called again, by anyone
		if err != nil {
			log.Fatal(err)
		}
		switch b := ev.Body.(type) {
		case event.ItemDelta:
			fmt.Print(b.DeltaContent)
		case event.ResponseDone:
			fmt.Println()
		}
	}
	res, err := run.Wait(ctx) // after the terminal event, always the same answer
	fmt.Println(res.Status, err)
	// Output:
	// Hello from the scripted agent.
	// completed <nil>
}
