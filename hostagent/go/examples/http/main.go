// SPDX-License-Identifier: Apache-2.0

// An HTTP server whose responses declare their sizes by themselves: GET /BYTES returns that many bytes. GET
// /BYTES/MILLISECONDS gives the response a deadline, too.
//
// Usage: go run ./examples/http ADDRESS:PORT [CERTIFICATE KEY]
package main

import (
	"crypto/tls"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"sluice.internal/sluice"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 4 {
		log.Fatal("usage: http ADDRESS:PORT [CERTIFICATE KEY]")
	}
	server := http.Server{Addr: os.Args[1], Handler: sluice.Declaring(http.HandlerFunc(get)), ConnContext: sluice.WithConnection}
	if len(os.Args) == 4 {
		server.TLSNextProto = noHTTP2
		log.Fatal(server.ListenAndServeTLS(os.Args[2], os.Args[3]))
	}
	log.Fatal(server.ListenAndServe())
}

// HTTP/2 mixes responses in one connection, so their sizes cannot be declared.
var noHTTP2 = map[string]func(*http.Server, *tls.Conn, http.Handler){}

func get(w http.ResponseWriter, r *http.Request) {
	size, deadline, err := wanted(strings.Split(r.URL.Path[1:], "/"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(size))
	if deadline != 0 {
		if err := sluice.SetResponseDeadline(w, deadline); err != nil {
			log.Print(err)
		}
	}
	_, _ = w.Write(make([]byte, size))
}

func wanted(parts []string) (size int, deadline time.Duration, err error) {
	numbers := make([]int, len(parts))
	for i, part := range parts {
		if numbers[i], err = strconv.Atoi(part); err != nil {
			return 0, 0, fmt.Errorf("%q: give /BYTES or /BYTES/MILLISECONDS", part)
		}
	}
	switch len(numbers) {
	case 1:
		return numbers[0], 0, nil
	case 2:
		return numbers[0], time.Duration(numbers[1]) * time.Millisecond, nil
	}
	return 0, 0, fmt.Errorf("%d parts: give /BYTES or /BYTES/MILLISECONDS", len(numbers))
}
