// SPDX-License-Identifier: Apache-2.0

// A gRPC server whose responses carry the deadlines of their calls, and a client.
//
//	go run ./example serve ADDRESS:PORT
//	go run ./example call ADDRESS:PORT BYTES MILLISECONDS [CALLS]
//
// The server's only method returns as many bytes as the request says. The Python example has the same service.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	sluicegrpc "sluice.internal/sluice/grpc"
)

const (
	service, method = "sluice.example.Blobs", "Get"
	mostBytes       = 1 << 28
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "serve":
		return serve(arguments[1])
	case len(arguments) >= 4 && arguments[0] == "call":
		numbers := []int{0, 0, 1}
		for i, text := range arguments[2:] {
			number, err := strconv.Atoi(text)
			if err != nil || i >= len(numbers) {
				return fmt.Errorf("%q: give BYTES MILLISECONDS [CALLS] as whole numbers", text)
			}
			numbers[i] = number
		}
		return call(arguments[1], numbers[0], time.Duration(numbers[1])*time.Millisecond, numbers[2])
	}
	return fmt.Errorf("usage: serve ADDRESS:PORT, or call ADDRESS:PORT BYTES MILLISECONDS [CALLS]")
}

func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(sluicegrpc.Declaring))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: method, Handler: handle}},
	}, nil)
	return server.Serve(sluicegrpc.Listen(listener))
}

// handle does what protoc-gen-go-grpc would generate for the method.
func handle(_ any, ctx context.Context, decode func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
	request := new(wrapperspb.UInt64Value)
	if err := decode(request); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{FullMethod: "/" + service + "/" + method}
	return through(ctx, request, info, get)
}

func get(_ context.Context, request any) (any, error) {
	wanted := request.(*wrapperspb.UInt64Value).Value
	if wanted > mostBytes {
		return nil, status.Errorf(codes.InvalidArgument, "%d bytes: at most %d", wanted, mostBytes)
	}
	return wrapperspb.Bytes(make([]byte, wanted)), nil
}

func call(address string, bytes int, deadline time.Duration, calls int) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(2*mostBytes)))
	if err != nil {
		return err
	}
	defer conn.Close()
	missed := 0
	for i := 0; i < calls; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		var response wrapperspb.BytesValue
		err := conn.Invoke(ctx, "/"+service+"/"+method, wrapperspb.UInt64(uint64(bytes)), &response, grpc.WaitForReady(true))
		cancel()
		switch {
		case status.Code(err) == codes.DeadlineExceeded:
			missed++
		case err != nil:
			return err
		}
	}
	fmt.Printf("%d calls of %d bytes, %d later than %v\n", calls, bytes, missed, deadline)
	return nil
}
