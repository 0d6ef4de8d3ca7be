// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"
)

func TestLayoutsAreTheKernels(t *testing.T) {
	if size := unsafe.Sizeof(rawFlow{}); size != 56 {
		t.Errorf("struct sluice_flow has %d bytes, not 56", size)
	}
	if size := unsafe.Sizeof(rawState{}); size != 64 {
		t.Errorf("struct sluice_state has %d bytes, not 64", size)
	}
	var flow rawFlow
	var state rawState
	offsets := map[string][2]uintptr{
		"size_bytes":  {unsafe.Offsetof(flow.sizeBytes), 8},
		"deadline_ns": {unsafe.Offsetof(flow.deadlineNs), 16},
		"elapsed_ns":  {unsafe.Offsetof(flow.elapsedNs), 24},
		"importance":  {unsafe.Offsetof(flow.importanceMilli), 32},
		"share":       {unsafe.Offsetof(flow.share), 36},
		"control":     {unsafe.Offsetof(flow.control), 40},
		"acked_bytes": {unsafe.Offsetof(state.ackedBytes), 8},
		"alpha_q20":   {unsafe.Offsetof(state.alpha), 32},
		"resumes":     {unsafe.Offsetof(state.resumes), 60},
	}
	for name, pair := range offsets {
		if pair[0] != pair[1] {
			t.Errorf("%s is at %d, not at %d", name, pair[0], pair[1])
		}
	}
}

func TestAWrongFieldIsAnsweredWithWhatToWrite(t *testing.T) {
	half, two := 0.5, 2.0
	for _, wrong := range []struct {
		flow          Flow
		field, answer string
	}{
		{Flow{}, "Flow", "declares nothing: set at least one field"},
		{Flow{Deadline: 5}, "Deadline", "A number without a unit counts nanoseconds: write 5*time.Millisecond for 5 ms"},
		{Flow{Deadline: -time.Second}, "Deadline", "must be in the future, not -1s from now"},
		{Flow{SizeBytes: 1e9, Deadline: time.Millisecond}, "Deadline", "hopeless: 1000000000 bytes in 1ms need 8000 Gb/s"},
		{Flow{SizeBytes: -1}, "SizeBytes", "must be at least 1"},
		{Flow{SizeBytes: 1, Elapsed: time.Second}, "Elapsed", "only with Deadline"},
		{Flow{Deadline: time.Second, Elapsed: -1}, "Elapsed", "must be 0 or more"},
		{Flow{Importance: 9}, "Importance", "must be 0.001 … 8, not 9"},
		{Flow{Importance: math.NaN()}, "Importance", "must be 0.001 … 8, not NaN"},
		{Flow{SizeBytes: 1, ImportanceShare: &half}, "ImportanceShare", "only with Importance"},
		{Flow{Importance: 1, ImportanceShare: &two}, "ImportanceShare", "must be 0 … 1, not 2"},
		{Flow{Quench: 9}, "Quench", "must be Never, Kill or Suspend, not 9"},
		{Flow{CongestionControl: "a-name-that-is-too-long"}, "CongestionControl", "1 … 15 characters"},
	} {
		var found *FieldError
		if err := wrong.flow.check(); !errors.As(err, &found) {
			t.Errorf("%+v: %v is no FieldError", wrong.flow, err)
		} else if found.Field != wrong.field || !strings.Contains(err.Error(), wrong.answer) {
			t.Errorf("%+v: %v lacks %q of %s", wrong.flow, err, wrong.answer, wrong.field)
		}
	}
}

func TestAFastFlowOnTheFastestLinkIsAllowed(t *testing.T) {
	if err := (Flow{SizeBytes: 100_000, Deadline: time.Microsecond}).check(); err != nil {
		t.Error(err)
	}
}

func TestADeclarationComesBackAsItWas(t *testing.T) {
	share := 0.25
	flow := Flow{SizeBytes: 7, Deadline: time.Second, Elapsed: time.Millisecond, Importance: 2, ImportanceShare: &share,
		Quench: Suspend, CongestionControl: "sluice_datcp"}
	want := Declaration{7, true, time.Second, time.Millisecond, 2, 0.25, Suspend, "sluice_datcp"}
	if got := flow.pack().declaration(); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if got := (Flow{}).pack(); got != (rawFlow{}) {
		t.Errorf("%+v is not all zero", got)
	}
	if got := (Flow{Importance: 1}).pack(); got.share != 500 || got.fields != hasImportance {
		t.Errorf("%+v", got)
	}
	if got := (Flow{Quench: Never}).pack(); got.fields != hasQuench || got.quench != 0 {
		t.Errorf("%+v", got)
	}
}

func TestFractionsOfAState(t *testing.T) {
	got := rawState{phase: 2, wanted: math.MaxUint64, alpha: 1 << 19, urgency: 3 << 15, decrease: 1 << 15}.state()
	if got.Phase != Killed || !math.IsInf(got.WantedBytesPerS, 1) || got.Alpha != 0.5 || got.Urgency != 1.5 ||
		got.Decrease != 0.5 {
		t.Errorf("%+v", got)
	}
}
