// SPDX-License-Identifier: Apache-2.0

package sluice

import "math"

// Phase says whether the kernel sends a flow. Only sluice_datcp suspends and kills flows.
type Phase uint32

const (
	Sending Phase = iota
	// Suspended: the kernel sends next to nothing until the network is lightly loaded.
	Suspended
	// Killed: the flow cannot meet its deadline. The kernel sends next to nothing from now on.
	Killed
)

func (p Phase) String() string {
	if p > Killed {
		return "unknown"
	}
	return [...]string{"sending", "suspended", "killed"}[p]
}

// State is a flow's progress. Under a congestion control that is not Sluice's, only AckedBytes is valid.
type State struct {
	Phase Phase
	// Windows of data since the flow began.
	Windows uint32
	// AckedBytes are the bytes of this flow that the receiver's kernel has acknowledged.
	AckedBytes uint64
	// RateBytesPerS is the averaged throughput.
	RateBytesPerS uint64
	// WantedBytesPerS is the rate that meets the deadline from now on; +Inf if no rate would.
	WantedBytesPerS float64
	// Alpha is the averaged share of marked packets, 0 … 1.
	Alpha float64
	// Urgency is UCP's s, D2TCP's d or DATCP's U: 1 for a flow without a deadline, larger for an urgent one.
	Urgency float64
	// Precedence is DATCP's P, from urgency and importance.
	Precedence float64
	// Decrease is the share by which the next mark cuts the window, 0 … 1.
	Decrease float64
	// CwndPackets is the congestion window.
	CwndPackets uint32
	// Cuts of the window since the flow began.
	Cuts uint32
	// Quenches says how often the flow was suspended or killed.
	Quenches uint32
	// Resumes says how often a suspended flow continued.
	Resumes uint32
}

// rawState is struct sluice_state of dataplane/include/sluice.h.
type rawState struct {
	phase, windows                       uint32
	ackedBytes, rate, wanted             uint64
	alpha, urgency, precedence, decrease uint32
	cwndPackets, cuts, quenches, resumes uint32
}

func (raw rawState) state() State {
	wanted := float64(raw.wanted)
	if raw.wanted == math.MaxUint64 {
		wanted = math.Inf(1)
	}
	return State{
		Phase: Phase(raw.phase), Windows: raw.windows,
		AckedBytes: raw.ackedBytes, RateBytesPerS: raw.rate, WantedBytesPerS: wanted,
		Alpha:   float64(raw.alpha) / (1 << 20),
		Urgency: float64(raw.urgency) / (1 << 16), Precedence: float64(raw.precedence) / (1 << 16),
		Decrease:    float64(raw.decrease) / (1 << 16),
		CwndPackets: raw.cwndPackets, Cuts: raw.cuts, Quenches: raw.quenches, Resumes: raw.resumes,
	}
}
