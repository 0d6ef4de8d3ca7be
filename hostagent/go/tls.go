// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"crypto/tls"
	"net"
)

const (
	// A record of TLS 1.3 adds a header of 5 bytes, a type of 1, and an authentication tag of 16. One of TLS 1.2 adds at
	// most 29: header, explicit nonce of 8, tag.
	tls13RecordBytes, tls12RecordBytes = 22, 29
	recordPayloadBytes                 = 16_384
	// crypto/tls begins a connection with small records, which grow.
	smallRecords = 16
)

// WireBytes returns how many bytes of TCP this many bytes of a program take on a connection: the same, or under TLS with
// the overhead of its records. The result is too large by at most 500 bytes and 0.1 %. Declare it, not the bytes of the program.
func WireBytes(conn net.Conn, bytes int64) int64 {
	for at := conn; ; {
		if secured, ok := at.(*tls.Conn); ok {
			return TLSBytes(secured.ConnectionState().Version, bytes)
		}
		outer, ok := at.(interface{ NetConn() net.Conn })
		if !ok {
			return bytes
		}
		at = outer.NetConn()
	}
}

// TLSBytes returns how many bytes of TCP this many bytes of a program take under a version of TLS.
func TLSBytes(version uint16, bytes int64) int64 {
	record := int64(tls12RecordBytes)
	if version == tls.VersionTLS13 {
		record = tls13RecordBytes
	}
	return bytes + record*((bytes+recordPayloadBytes-1)/recordPayloadBytes+smallRecords)
}
