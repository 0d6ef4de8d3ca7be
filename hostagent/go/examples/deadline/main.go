// SPDX-License-Identifier: Apache-2.0

// Send BYTES that must arrive within MILLISECONDS.
//
// Usage: go run ./examples/deadline HOST PORT BYTES MILLISECONDS
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"sluice.internal/sluice"
)

func main() {
	if len(os.Args) != 5 {
		fail(errors.New("usage: deadline HOST PORT BYTES MILLISECONDS"))
	}
	size, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fail(err)
	}
	milliseconds, err := strconv.Atoi(os.Args[4])
	if err != nil {
		fail(err)
	}
	if err := send(net.JoinHostPort(os.Args[1], os.Args[2]), size, time.Duration(milliseconds)*time.Millisecond); err != nil {
		fail(err)
	}
}

func send(server string, size int, deadline time.Duration) error {
	conn, err := net.Dial("tcp", server)
	if err != nil {
		return err
	}
	defer conn.Close()
	flow := sluice.NewConn(conn)
	if err := flow.Declare(sluice.Flow{SizeBytes: int64(size), Deadline: deadline, Quench: sluice.Kill}); err != nil {
		return err
	}
	if _, err := flow.Write(make([]byte, size)); err != nil {
		return err
	}
	if err := flow.WaitAcknowledged(context.Background()); err != nil {
		return err
	}
	state, err := flow.State()
	fmt.Println(state.AckedBytes, "bytes acknowledged, done")
	return err
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
