// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// These tests need no agent. Those that need one are in the project's tests/kernel.

func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err = net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func TestASocketThatIsNotTCPIsRefused(t *testing.T) {
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	err := Declare(one, Flow{SizeBytes: 1})
	if err == nil || !strings.Contains(err.Error(), "*net.pipe hides its socket: give the *net.TCPConn") {
		t.Error(err)
	}
	udp, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	if err := Declare(udp, Flow{SizeBytes: 1}); err == nil {
		t.Error("a UDP socket takes a declaration")
	}
}

func TestAClosedConnectionIsNoMissingAgent(t *testing.T) {
	near, _ := pair(t)
	near.Close()
	if err := Declare(near, Flow{SizeBytes: 1}); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestWithoutADeclarationAConnWritesAsEver(t *testing.T) {
	near, far := pair(t)
	flow := NewConn(near)
	data := strings.Repeat("x", 10_000_000)
	received := make(chan int64, 1)
	go func() {
		time.Sleep(3 * pollInterval) // so that the write blocks for more than one step
		count, _ := io.Copy(io.Discard, far)
		received <- count
	}()
	if n, err := flow.Write([]byte(data)); n != len(data) || err != nil {
		t.Fatal(n, err)
	}
	near.Close()
	if count := <-received; count != int64(len(data)) {
		t.Error(count)
	}
	if err := NewConn(near).WaitAcknowledged(context.Background()); err == nil ||
		!strings.Contains(err.Error(), "call Declare before the first byte") {
		t.Error(err)
	}
}

func TestTheWriteDeadlineOfTheProgramHolds(t *testing.T) {
	near, _ := pair(t)
	flow := NewConn(near)
	if err := flow.SetWriteDeadline(time.Now().Add(2 * pollInterval)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err := flow.Write(make([]byte, 100_000_000))
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) > 5*time.Second {
		t.Error(err, time.Since(began))
	}
}

func TestAServerWorksWithoutAnAgent(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		if err := SetResponseDeadline(w, 5); err == nil || !strings.Contains(err.Error(), "write 5*time.Millisecond") {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "hello")
		if err := SetResponseDeadline(w, time.Second); err == nil || !strings.Contains(err.Error(), "has begun") {
			t.Error(err)
		}
	})
	server := httptest.NewUnstartedServer(Declaring(handler))
	server.Config.ConnContext = WithConnection
	server.Start()
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	if string(body) != "hello" {
		t.Errorf("%q", body)
	}
}

// counting counts what a server writes to TCP.
type counting struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counting) Write(data []byte) (int, error) {
	c.bytes.Add(int64(len(data))) // before the client can have them
	return c.Conn.Write(data)
}

type countingListener struct {
	net.Listener
	bytes *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return counting{conn, l.bytes}, err
}

func TestUnderTLSTheSizeIsThatOnTheWire(t *testing.T) {
	var bytes atomic.Int64
	var declared []int64
	sizes := []int{100, 20_000, 300_000, 3_000_000}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := w.(*declaringWriter)
		w.Header().Set("Content-Length", r.URL.Path[1:])
		declared = append(declared, own.size())
		body, _ := strconv.ParseInt(r.URL.Path[1:], 10, 64)
		_, _ = io.CopyN(w, zeros{}, body)
	})
	server := httptest.NewUnstartedServer(Declaring(handler))
	server.Listener = countingListener{server.Listener, &bytes}
	server.Config.ConnContext = WithConnection
	server.StartTLS()
	defer server.Close()
	for i, size := range sizes {
		fetch(t, server.Client(), server.URL+"/"+strconv.Itoa(size), size)
		before := bytes.Swap(0)
		if i == 0 {
			continue // with the handshake
		}
		t.Logf("%d bytes of the program: %d on the wire (+%.2f %%), %d declared", size, before,
			100*float64(before-int64(size))/float64(size), declared[i])
		if slack := declared[i] - before; slack < 0 || slack > 600+int64(size)/1000 {
			t.Errorf("%d bytes: declared %d, on the wire %d", size, declared[i], before)
		}
	}
}

type zeros struct{}

func (zeros) Read(data []byte) (int, error) {
	for i := range data {
		data[i] = 0
	}
	return len(data), nil
}

func fetch(t *testing.T, client *http.Client, url string, size int) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := io.Copy(io.Discard, response.Body); n != int64(size) || err != nil {
		t.Fatal(n, err)
	}
}
