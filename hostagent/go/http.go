// SPDX-License-Identifier: Apache-2.0

//go:build linux && !386

package sluice

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Status line, Date and what else net/http adds to a head.
const serverHeadBytes = 160

type connectionKey struct{}

// WithConnection is for http.Server.ConnContext. It lets Declaring find the connection of a request.
func WithConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// Declaring returns a handler whose responses declare their size before their first byte, from Content-Length. Without
// that header, the response is declared without a size. Without an agent on the machine, nothing is declared, and the
// server works all the same.
//
//	server := http.Server{Handler: sluice.Declaring(handler), ConnContext: sluice.WithConnection}
//
// HTTP/2 mixes responses in one connection, so nothing is declared there.
func Declaring(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, ok := r.Context().Value(connectionKey{}).(net.Conn)
		if ok && r.ProtoMajor == 1 {
			w = &declaringWriter{ResponseWriter: w, conn: conn}
		}
		next.ServeHTTP(w, r)
	})
}

// SetResponseDeadline gives a response a deadline, from now. Call it in a handler of Declaring before the first byte. The
// error says why the response carries no deadline: *FieldError, ErrNoAgent, or another.
func SetResponseDeadline(w http.ResponseWriter, deadline time.Duration) error {
	own, ok := w.(*declaringWriter)
	if !ok {
		return errors.New("sluice: SetResponseDeadline: the response is not of Declaring with WithConnection, or is of HTTP/2")
	}
	if own.declared {
		return errors.New("sluice: SetResponseDeadline: the response has begun: call it before the first byte")
	}
	err := Declare(own.conn, Flow{SizeBytes: own.size(), Deadline: deadline})
	own.declared = err == nil // otherwise the size is declared with the first byte
	return err
}

type declaringWriter struct {
	http.ResponseWriter
	conn     net.Conn
	declared bool
}

func (w *declaringWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.declare()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *declaringWriter) Write(data []byte) (int, error) {
	w.declare()
	return w.ResponseWriter.Write(data)
}

// ReadFrom keeps the server's own way from a file to the socket.
func (w *declaringWriter) ReadFrom(source io.Reader) (int64, error) {
	w.declare()
	return io.Copy(w.ResponseWriter, source)
}

func (w *declaringWriter) Flush() {
	w.declare()
	if flusher, ok := w.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

func (w *declaringWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	hijacker, ok := w.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, http.ErrNotSupported
	}
	w.declared = true
	return hijacker.Hijack()
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *declaringWriter) Unwrap() http.ResponseWriter {
	return w.ResponseWriter
}

// declare begins the flow of this response, once. Its errors have no one to go to: a server works without an agent.
func (w *declaringWriter) declare() {
	if w.declared {
		return
	}
	w.declared = true
	_ = put(w.conn, Flow{SizeBytes: w.size()})
}

// size returns the bytes of the response with its head and with TLS, about; 0 if it has no Content-Length.
func (w *declaringWriter) size() int64 {
	body, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 62)
	if err != nil || body < 0 {
		return 0
	}
	var head strings.Builder
	if w.Header().Write(&head) != nil {
		return 0
	}
	return WireBytes(w.conn, body+int64(head.Len())+serverHeadBytes)
}
