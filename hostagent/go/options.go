// SPDX-License-Identifier: Apache-2.0

//go:build linux && !386

package sluice

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"unsafe"
)

const (
	solSluice   = 0x5C1C
	optionFlow  = 1
	optionState = 2
)

// Declare begins a new flow with the next byte that the program writes. A declaration replaces the previous one.
//
// conn is a *net.TCPConn, or wraps one, as *tls.Conn does, and has the method NetConn. The errors are *FieldError,
// ErrNoAgent, ErrNotTCP, and those of a closed connection. After an error, the socket is unchanged.
func Declare(conn net.Conn, flow Flow) error {
	if err := flow.check(); err != nil {
		return err
	}
	return put(conn, flow)
}

// Undeclare begins a new flow of which nothing is known, with the next byte.
func Undeclare(conn net.Conn) error {
	return put(conn, Flow{})
}

// Declared returns the declaration of the socket's flow, with times as of now.
func Declared(conn net.Conn) (Declaration, error) {
	var raw rawFlow
	err := get(conn, solSluice, optionFlow, unsafe.Pointer(&raw), unsafe.Sizeof(raw))
	return raw.declaration(), explained(conn, err, "")
}

// StateOf returns the state of the socket's flow.
func StateOf(conn net.Conn) (State, error) {
	var raw rawState
	err := get(conn, solSluice, optionState, unsafe.Pointer(&raw), unsafe.Sizeof(raw))
	return raw.state(), explained(conn, err, "")
}

func put(conn net.Conn, flow Flow) error {
	raw := flow.pack()
	err := control(conn, func(fd uintptr) error {
		_, _, number := syscall.Syscall6(syscall.SYS_SETSOCKOPT, fd, solSluice, optionFlow,
			uintptr(unsafe.Pointer(&raw)), unsafe.Sizeof(raw), 0)
		return nonZero(number)
	})
	return explained(conn, err, flow.CongestionControl)
}

// get reads a socket option into size bytes at value.
func get(conn net.Conn, level, option uintptr, value unsafe.Pointer, size uintptr) error {
	length := uint32(size)
	return control(conn, func(fd uintptr) error {
		_, _, number := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, level, option, uintptr(value),
			uintptr(unsafe.Pointer(&length)), 0)
		return nonZero(number)
	})
}

func nonZero(number syscall.Errno) error {
	if number == 0 {
		return nil
	}
	return number
}

// control calls a function with the descriptor of the socket of a connection.
func control(conn net.Conn, with func(fd uintptr) error) error {
	raw, err := socket(conn)
	if err != nil {
		return err
	}
	var found error
	if err := raw.Control(func(fd uintptr) { found = with(fd) }); err != nil {
		return err
	}
	return found
}

func socket(conn net.Conn) (syscall.RawConn, error) {
	for at := conn; ; {
		if own, ok := at.(syscall.Conn); ok {
			return own.SyscallConn()
		}
		outer, ok := at.(interface{ NetConn() net.Conn })
		if !ok {
			return nil, fmt.Errorf("sluice: a connection of type %T hides its socket: give the *net.TCPConn", at)
		}
		at = outer.NetConn()
	}
}

// explained returns the error for a refusal of the kernel.
func explained(conn net.Conn, err error, congestionControl string) error {
	switch {
	case errors.Is(err, syscall.ENOPROTOOPT):
		return ErrNoAgent
	case errors.Is(err, syscall.EOPNOTSUPP):
		// On an IPv4 socket, the kernel answers a read so if no hook is attached.
		if isTCP(conn) {
			return ErrNoAgent
		}
		return ErrNotTCP
	// check has seen every other field, so EINVAL can only mean the congestion control.
	case errors.Is(err, syscall.EINVAL) && congestionControl != "":
		return wrong("CongestionControl", "%s is not registered on this machine: use one of those in "+
			"/proc/sys/net/ipv4/tcp_available_congestion_control", congestionControl)
	case errors.Is(err, syscall.EPERM) && congestionControl != "":
		return wrong("CongestionControl", "%s is only for root here: use a control of Sluice, or the default in "+
			"/proc/sys/net/ipv4/tcp_congestion_control", congestionControl)
	}
	return err
}

func isTCP(conn net.Conn) bool {
	var protocol uint32
	err := get(conn, syscall.SOL_SOCKET, syscall.SO_PROTOCOL, unsafe.Pointer(&protocol), unsafe.Sizeof(protocol))
	return err == nil && protocol == syscall.IPPROTO_TCP
}

func containsZero(text string) bool {
	return strings.IndexByte(text, 0) >= 0
}

func untilZero(text []byte) string {
	before, _, _ := bytes.Cut(text, []byte{0})
	return string(before)
}
