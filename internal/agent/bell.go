package agent

// bell wakes a loop. Ringing never blocks, and however often it is rung before
// the loop looks, the loop wakes once.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
