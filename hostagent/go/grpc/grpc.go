// SPDX-License-Identifier: Apache-2.0

// Package sluicegrpc declares the response of each unary call of a gRPC server: its size, and the deadline of the call.
//
//	listener, err := net.Listen("tcp", ":5000")
//	server := grpc.NewServer(grpc.UnaryInterceptor(sluicegrpc.Declaring))
//	err = server.Serve(sluicegrpc.Listen(listener))
//
// Handlers need no change: the deadline is that of the client's context. Without an agent on the machine, nothing is
// declared, and the server works all the same.
//
// HTTP/2 mixes the responses of one connection. A response that begins before the one before it has arrived is declared
// as a flow of which nothing is known. So clients that have several calls under way use several connections.
package sluicegrpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"sluice.internal/sluice"
)

const (
	frameBytes        = 9 // of HTTP/2, before at most 16,384 bytes of payload
	framePayloadBytes = 16_384
	// The response's head and trailer, and the prefix of its message.
	headBytes = 160
)

// Listen returns a listener whose connections Declaring can find.
func Listen(listener net.Listener) net.Listener {
	return &findable{listener}
}

type findable struct{ net.Listener }

func (l *findable) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: conn}, nil
}

// connection is a connection of the server, and its declared flow.
type connection struct {
	net.Conn

	mu sync.Mutex
	// The bytes after which the flow has certainly arrived.
	leastBytes int64
}

// address is the remote address by which a handler's context leads to the connection.
type address struct {
	net.Addr
	conn *connection
}

func (c *connection) RemoteAddr() net.Addr { return &address{c.Conn.RemoteAddr(), c} }

func (c *connection) NetConn() net.Conn { return c.Conn }

// Declaring is a grpc.UnaryServerInterceptor.
func Declaring(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, request)
	if message, ok := response.(proto.Message); ok && err == nil {
		if from, ok := peer.FromContext(ctx); ok {
			if at, ok := from.Addr.(*address); ok {
				at.conn.declare(flowOf(ctx, from, int64(proto.Size(message))), int64(proto.Size(message)))
			}
		}
	}
	return response, err
}

func flowOf(ctx context.Context, from *peer.Peer, bytes int64) sluice.Flow {
	size := bytes + headBytes + frameBytes*(bytes/framePayloadBytes+1)
	if secured, ok := from.AuthInfo.(credentials.TLSInfo); ok {
		size = sluice.TLSBytes(secured.State.Version, size)
	}
	flow := sluice.Flow{SizeBytes: size}
	if until, ok := ctx.Deadline(); ok {
		flow.Deadline = max(0, time.Until(until))
	}
	return flow
}

// declare begins the flow of a response, or one of which nothing is known if the one before has not arrived.
func (c *connection) declare(flow sluice.Flow, leastBytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, err := sluice.StateOf(c.Conn)
	if err == nil && int64(before.AckedBytes) < c.leastBytes {
		err = sluice.Undeclare(c.Conn)
	} else {
		err = sluice.Declare(c.Conn, flow)
	}
	var hopeless *sluice.FieldError
	if errors.As(err, &hopeless) {
		err = sluice.Declare(c.Conn, sluice.Flow{SizeBytes: flow.SizeBytes})
	}
	if err == nil {
		c.leastBytes = leastBytes
	}
}
