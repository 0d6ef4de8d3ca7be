// SPDX-License-Identifier: Apache-2.0

// An HTTP server whose responses declare their sizes by themselves: GET /BYTES returns that many bytes.
// Handlers need no change. They set Content-Length, as they do for any response of known size.
//
// Usage: go run hostagent/examples/http_sizes.go ADDRESS:PORT
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	solSluice, sluiceFlow = 0x5C1C, 1
	sluiceHasSize         = 1
	// Status line, Date and what else net/http adds to a head.
	serverHeadBytes = 160
)

// flow is struct sluice_flow of dataplane/include/sluice.h.
type flow struct {
	Fields, Quench    uint32
	Size              uint64
	Deadline          int64
	Elapsed           uint64
	Importance, Share uint32
	Control           [16]byte
}

type connectionKey struct{}

// withConnection is for http.Server.ConnContext: it lets declaring find the connection of a request.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// declaring returns a handler whose responses declare their size before their first byte.
func declaring(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, ok := r.Context().Value(connectionKey{}).(syscall.Conn)
		if ok && r.ProtoMajor == 1 { // HTTP/2 mixes responses in one connection
			w = &declaringWriter{ResponseWriter: w, conn: conn}
		}
		next.ServeHTTP(w, r)
	})
}

type declaringWriter struct {
	http.ResponseWriter
	conn     syscall.Conn
	declared bool
}

func (w *declaringWriter) WriteHeader(status int) {
	if !w.declared && status >= http.StatusOK {
		w.declared = true
		declare(w.conn, size(w.Header()))
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *declaringWriter) Write(data []byte) (int, error) {
	if !w.declared {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *declaringWriter) Unwrap() http.ResponseWriter {
	return w.ResponseWriter
}

// size returns the bytes of a response with its head, about; 0 if it has no Content-Length.
func size(header http.Header) uint64 {
	body, err := strconv.ParseUint(header.Get("Content-Length"), 10, 62)
	if err != nil {
		return 0
	}
	var head strings.Builder
	if header.Write(&head) != nil {
		return 0
	}
	return body + uint64(head.Len()) + serverHeadBytes
}

// declare begins a new flow of this size; 0: of unknown size. Without an agent it does nothing.
func declare(conn syscall.Conn, size uint64) {
	var value bytes.Buffer
	next := flow{Size: size}
	if size > 0 {
		next.Fields = sluiceHasSize
	}
	if binary.Write(&value, binary.NativeEndian, next) != nil {
		return
	}
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptString(int(fd), solSluice, sluiceFlow, value.String())
		})
	}
}

func main() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		length, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(length))
		_, _ = w.Write(make([]byte, length))
	})
	server := http.Server{Addr: os.Args[1], Handler: declaring(handler), ConnContext: withConnection}
	log.Fatal(server.ListenAndServe())
}
