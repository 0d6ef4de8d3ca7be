// SPDX-License-Identifier: Apache-2.0

// A client of rpc_server.py over one persistent connection.
//
// Usage: rpc_client ADDRESS:PORT /BYTES/MILLISECONDS...
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	connection, err := net.Dial("tcp", os.Args[1])
	check(err)
	answers := bufio.NewReader(connection)
	for _, path := range os.Args[2:] {
		_, err = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: rpc\r\n\r\n", path)
		check(err)
		_, err = io.CopyN(io.Discard, answers, length(answers))
		check(err)
		time.Sleep(30 * time.Millisecond)
	}
	check(connection.Close())
}

func length(answers *bufio.Reader) (bytes int64) {
	for {
		line, err := answers.ReadString('\n')
		check(err)
		if line == "\r\n" {
			return bytes
		}
		if name, value, found := strings.Cut(line, ": "); found && name == "Content-Length" {
			bytes, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			check(err)
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
