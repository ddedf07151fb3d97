// Command demo shows the main job of Fleet Rollout on real Kubernetes and real
// Open Cluster Management: a hub and three managed clusters come up, the addon
// is enabled, version 1.0.0 goes out, then 1.1.0, then a broken 1.2.0, which
// goes back by itself. It ends by asking the clusters themselves what they run,
// and fails if the answer is not the right one.
//
// KEEP=1 leaves everything running and prints how to look around.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	demo := &demo{out: os.Stdout, keep: os.Getenv("KEEP") == "1"}
	err := demo.run(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: failed:", err)
		stop()
		os.Exit(1)
	}
	fmt.Println("demo: ok")
}
