// SPDX-License-Identifier: Apache-2.0

// Send SIZE bytes that must arrive within MILLISECONDS.
// Usage: go run hostagent/examples/deadline.go HOST PORT SIZE MILLISECONDS
package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const solSluice, sluiceFlow, hasSize, hasDeadline = 0x5C1C, 1, 1, 2

// sluiceFlowValue is struct sluice_flow of dataplane/include/sluice.h.
type sluiceFlowValue struct {
	fields, quench                   uint32
	sizeBytes                        uint64
	deadlineNs, elapsedNs            int64
	importanceMilli, importanceShare uint32
	control                          [16]byte
}

// declare says what the program writes to the connection from now on.
func declare(conn syscall.Conn, size int, deadline time.Duration) {
	flow := sluiceFlowValue{fields: hasSize | hasDeadline, sizeBytes: uint64(size), deadlineNs: int64(deadline)}
	value := string((*[unsafe.Sizeof(flow)]byte)(unsafe.Pointer(&flow))[:])
	raw, err := conn.SyscallConn()
	check(err)
	check(raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptString(int(fd), solSluice, sluiceFlow, value)
	}))
	check(os.NewSyscallError("setsockopt SLUICE_FLOW", err))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: deadline HOST PORT SIZE MILLISECONDS")
	}
	size, err := strconv.Atoi(os.Args[3])
	check(err)
	deadline, err := time.ParseDuration(os.Args[4] + "ms")
	check(err)
	conn, err := net.Dial("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	check(err)
	declare(conn.(*net.TCPConn), size, deadline)
	_, err = conn.Write(make([]byte, size))
	check(err)
	fmt.Println(size, "bytes sent")
}
