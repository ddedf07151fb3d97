package lab

import (
	"fmt"
	"net"
)

const loopback = "127.0.0.1"

// freePorts asks the kernel for n different free TCP ports of the loopback
// interface. Another program may take one before it is used, so whoever uses
// them must be ready to ask again (see startOnFreePorts).
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		listener, err := net.Listen("tcp", loopback+":0")
		if err != nil {
			return nil, fmt.Errorf("ask for a free port: %w", err)
		}
		// All stay open until the last is known, so that they differ.
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
