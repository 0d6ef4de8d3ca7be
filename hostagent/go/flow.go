// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"math"
	"time"
)

const (
	hasSize = 1 << iota
	hasDeadline
	hasImportance
	hasQuench
	hasControl
)

const (
	importanceMax = 8
	defaultShare  = 0.5
	controlBytes  = 16
	// No Ethernet link is faster, so no network meets a deadline that needs more.
	fastestLinkGbit = 800
	// A deadline below this is a number without its unit: 5 is 5 ns in Go.
	shortestDeadline = time.Microsecond
)

// Quench says what sluice_datcp does with a flow that cannot meet its deadline.
type Quench uint32

// The zero value declares nothing.
const (
	Undeclared Quench = iota
	Never
	Kill
	Suspend
)

// Flow is what a program can declare. The kernel treats a field with the zero value as unknown.
type Flow struct {
	// SizeBytes is the size of the whole flow.
	SizeBytes int64
	// Deadline is the time from now, for example 25*time.Millisecond.
	Deadline time.Duration
	// Elapsed says how long ago the flow began, if it waited in the program. Only with Deadline.
	Elapsed time.Duration
	// Importance is 0.001 … 8; a standard flow has 1. Only sluice_datcp uses it.
	Importance float64
	// ImportanceShare is its share of the precedence, 0 … 1; nil is 0.5. Urgency has the rest. Only with Importance.
	ImportanceShare *float64
	// Quench is for a flow that cannot meet its deadline.
	Quench Quench
	// CongestionControl is the control to select: sluice_ucp, sluice_d2tcp, sluice_datcp, sluice_mcp or one of the
	// kernel's.
	CongestionControl string
}

// Declaration is what the kernel holds for a socket.
type Declaration struct {
	// SizeBytes is 0 if the program has declared no size.
	SizeBytes   uint64
	HasDeadline bool
	// Left is the time to the deadline; it is negative after the deadline.
	Left time.Duration
	// Elapsed is the time since the flow began; only for a flow with a deadline.
	Elapsed time.Duration
	// Importance is 0 if the program has declared none.
	Importance, ImportanceShare float64
	Quench                      Quench
	// CongestionControl is the socket's, whether declared or not.
	CongestionControl string
}

// rawFlow is struct sluice_flow of dataplane/include/sluice.h.
type rawFlow struct {
	fields, quench         uint32
	sizeBytes              uint64
	deadlineNs             int64
	elapsedNs              uint64
	importanceMilli, share uint32
	control                [controlBytes]byte
}

// check refuses what a program cannot mean.
func (f Flow) check() error {
	if f == (Flow{}) {
		return &FieldError{"Flow", "declares nothing: set at least one field, for example SizeBytes and Deadline; " +
			"Undeclare begins a flow of which nothing is known"}
	}
	if f.SizeBytes < 0 {
		return wrong("SizeBytes", "must be at least 1, or 0 if it is unknown, not %d", f.SizeBytes)
	}
	for _, checked := range []error{f.checkTimes(), f.checkImportance(), f.checkNames()} {
		if checked != nil {
			return checked
		}
	}
	return nil
}

func (f Flow) checkTimes() error {
	switch {
	case f.Deadline < 0:
		return wrong("Deadline", "must be in the future, not %v from now", f.Deadline)
	case f.Deadline > 0 && f.Deadline < shortestDeadline:
		return wrong("Deadline", "is hopeless: no network answers within %v. A number without a unit counts "+
			"nanoseconds: write %d*time.Millisecond for %[2]d ms", f.Deadline, int64(f.Deadline))
	case f.Elapsed != 0 && f.Deadline == 0:
		return wrong("Elapsed", "has a meaning only with Deadline: give both, or leave it out")
	case f.Elapsed < 0:
		return wrong("Elapsed", "must be 0 or more, not %v", f.Elapsed)
	case f.Deadline == 0:
		return nil
	}
	if needed := 8 * float64(f.SizeBytes) / float64(f.Deadline); needed > fastestLinkGbit {
		return wrong("Deadline", "is hopeless: %d bytes in %v need %.0f Gb/s, and no link has more than %d Gb/s: "+
			"give more time or fewer bytes, or leave Deadline out", f.SizeBytes, f.Deadline, needed, fastestLinkGbit)
	}
	return nil
}

func (f Flow) checkImportance() error {
	if f.Importance == 0 {
		if f.ImportanceShare != nil {
			return wrong("ImportanceShare", "has a meaning only with Importance: give both, or leave it out")
		}
		return nil
	}
	if !(f.Importance >= 0.001 && f.Importance <= importanceMax) {
		return wrong("Importance", "must be 0.001 … %d, not %v", importanceMax, f.Importance)
	}
	if f.ImportanceShare != nil && !(*f.ImportanceShare >= 0 && *f.ImportanceShare <= 1) {
		return wrong("ImportanceShare", "must be 0 … 1, not %v", *f.ImportanceShare)
	}
	return nil
}

func (f Flow) checkNames() error {
	if f.Quench > Suspend {
		return wrong("Quench", "must be Never, Kill or Suspend, not %d", f.Quench)
	}
	if len(f.CongestionControl) >= controlBytes || containsZero(f.CongestionControl) {
		return wrong("CongestionControl", "must be a name of 1 … %d characters, not %q", controlBytes-1,
			f.CongestionControl)
	}
	return nil
}

// pack returns the kernel's form of a flow that check has passed.
func (f Flow) pack() rawFlow {
	raw := rawFlow{sizeBytes: uint64(f.SizeBytes), deadlineNs: int64(f.Deadline), elapsedNs: uint64(f.Elapsed)}
	set := func(present bool, bit uint32) {
		if present {
			raw.fields |= bit
		}
	}
	set(f.SizeBytes > 0, hasSize)
	set(f.Deadline > 0, hasDeadline)
	set(f.Importance > 0, hasImportance)
	set(f.Quench != Undeclared, hasQuench)
	set(f.CongestionControl != "", hasControl)
	if f.Quench != Undeclared {
		raw.quench = uint32(f.Quench - Never)
	}
	if f.Importance > 0 {
		share := defaultShare
		if f.ImportanceShare != nil {
			share = *f.ImportanceShare
		}
		raw.importanceMilli = uint32(math.Round(f.Importance * 1000))
		raw.share = uint32(math.Round(share * 1000))
	}
	copy(raw.control[:], f.CongestionControl)
	return raw
}

func (raw rawFlow) declaration() Declaration {
	found := Declaration{CongestionControl: untilZero(raw.control[:])}
	if raw.fields&hasSize != 0 {
		found.SizeBytes = raw.sizeBytes
	}
	if raw.fields&hasDeadline != 0 {
		found.HasDeadline = true
		found.Left, found.Elapsed = time.Duration(raw.deadlineNs), time.Duration(raw.elapsedNs)
	}
	if raw.fields&hasImportance != 0 {
		found.Importance, found.ImportanceShare = float64(raw.importanceMilli)/1000, float64(raw.share)/1000
	}
	if raw.fields&hasQuench != 0 {
		found.Quench = Never + Quench(raw.quench)
	}
	return found
}
