// SPDX-License-Identifier: Apache-2.0

//go:build linux && !386

// Package sluice declares TCP flows to the kernel: their sizes, deadlines and importance.
//
//	conn, err := net.Dial("tcp", server)
//	flow := sluice.NewConn(conn)
//	err = flow.Declare(sluice.Flow{SizeBytes: int64(len(data)), Deadline: 25 * time.Millisecond, Quench: sluice.Kill})
//	_, err = flow.Write(data)           // *sluice.Quenched if the kernel kills the flow
//	err = flow.WaitAcknowledged(ctx)    // returns when the receiver's kernel has all data
//
// No privileges are needed, but a Sluice agent must run on the machine.
package sluice

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A call that waits checks the flow's phase this often.
const pollInterval = 20 * time.Millisecond

const tcpClosed = 7 // TCP_CLOSE of the kernel

// Conn is a TCP connection whose flows have deadlines: any number of flows, one after the other. Call Declare before
// each. One goroutine at a time may write.
type Conn struct {
	net.Conn

	mu       sync.Mutex
	until    time.Time // the program's write deadline
	declared bool
	written  uint64 // bytes of the declared flow
}

// NewConn wraps a TCP connection.
func NewConn(conn net.Conn) *Conn {
	return &Conn{Conn: conn}
}

// NetConn returns the wrapped connection.
func (c *Conn) NetConn() net.Conn {
	return c.Conn
}

// Declare begins a new flow with the next byte. See the function Declare for the errors.
func (c *Conn) Declare(flow Flow) error {
	return c.begin(Declare(c.Conn, flow))
}

// Undeclare begins a new flow of which nothing is known, with the next byte.
func (c *Conn) Undeclare() error {
	return c.begin(Undeclare(c.Conn))
}

func (c *Conn) begin(err error) error {
	if err == nil {
		c.mu.Lock()
		c.declared, c.written = true, 0
		c.mu.Unlock()
	}
	return err
}

// State returns the state of the current flow.
func (c *Conn) State() (State, error) {
	return StateOf(c.Conn)
}

// SetWriteDeadline is net.Conn's. It bounds a Write as a whole.
func (c *Conn) SetWriteDeadline(until time.Time) error {
	c.mu.Lock()
	c.until = until
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(until)
}

// SetDeadline is net.Conn's.
func (c *Conn) SetDeadline(until time.Time) error {
	if err := c.Conn.SetReadDeadline(until); err != nil {
		return err
	}
	return c.SetWriteDeadline(until)
}

// Write hands data to the kernel. The error is *Quenched at most about 20 ms after the kernel killed the flow, even while
// the call blocks.
func (c *Conn) Write(data []byte) (int, error) {
	sent := 0
	for {
		if err := c.checkPhase(); err != nil {
			return sent, err
		}
		until := c.writeDeadline()
		step := time.Now().Add(pollInterval)
		if !until.IsZero() && until.Before(step) {
			step = until
		}
		if err := c.Conn.SetWriteDeadline(step); err != nil {
			return sent, err
		}
		n, err := c.Conn.Write(data[sent:])
		sent += n
		c.addWritten(n)
		isStep := errors.Is(err, os.ErrDeadlineExceeded) && (until.IsZero() || time.Now().Before(until))
		if !isStep {
			if restored := c.Conn.SetWriteDeadline(until); err == nil {
				err = restored
			}
			return sent, err
		}
	}
}

func (c *Conn) writeDeadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until
}

func (c *Conn) addWritten(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written += uint64(n)
}

// checkPhase returns *Quenched if a flow is declared and killed.
func (c *Conn) checkPhase() error {
	c.mu.Lock()
	declared := c.declared
	c.mu.Unlock()
	if !declared {
		return nil
	}
	now, err := c.State()
	if err == nil && now.Phase == Killed {
		return &Quenched{now}
	}
	return err
}

// WaitAcknowledged returns nil when the receiver's kernel has all data of this flow. The errors are *Quenched, that of
// the context, and one of a connection that has broken.
func (c *Conn) WaitAcknowledged(ctx context.Context) error {
	c.mu.Lock()
	declared, written := c.declared, c.written
	c.mu.Unlock()
	if !declared {
		return errors.New("sluice: WaitAcknowledged: no flow is declared on this connection: call Declare before the " +
			"first byte is sent")
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		now, err := c.State()
		switch {
		case err != nil:
			return err
		case now.Phase == Killed:
			return &Quenched{now}
		case now.AckedBytes >= written:
			return nil
		case c.isClosed():
			return &net.OpError{Op: "write", Net: "tcp", Addr: c.RemoteAddr(), Err: syscall.ECONNRESET}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// isClosed tells whether the connection has ended in both directions, for example by a reset.
func (c *Conn) isClosed() bool {
	var info [4]byte // the first byte of struct tcp_info is the state
	err := get(c.Conn, syscall.IPPROTO_TCP, syscall.TCP_INFO, unsafe.Pointer(&info), unsafe.Sizeof(info))
	return err != nil || info[0] == tcpClosed
}
