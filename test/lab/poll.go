package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is short because a lab start is many short waits in a row.
const pollInterval = 200 * time.Millisecond

// finalError stops a poll at once: trying again cannot help.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// poll calls try until it returns nil, returns a finalError, or ctx ends. The
// error it returns then names the last thing that was missing.
func poll(ctx context.Context, try func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		var final finalError
		if errors.As(err, &final) {
			return final.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last seen: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
