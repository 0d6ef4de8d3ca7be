// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"errors"
	"fmt"
)

// ErrNoAgent says that the kernel takes no declarations.
var ErrNoAgent = errors.New("sluice: no Sluice agent runs on this machine, so the kernel takes no declarations: start " +
	"an agent as root (sluice agent); `sluice doctor` reports what the machine may lack")

// ErrNotTCP says that a socket cannot carry a declared flow.
var ErrNotTCP = errors.New("sluice: only a TCP socket that does not listen can carry a declared flow")

// FieldError is a field of a Flow with a value that is not allowed. The socket is unchanged.
type FieldError struct {
	Field, Problem string
}

func (e *FieldError) Error() string {
	return "sluice: " + e.Field + " " + e.Problem
}

func wrong(field, format string, values ...any) error {
	return &FieldError{field, fmt.Sprintf(format, values...)}
}

// Quenched says that the kernel has killed the flow because it cannot meet its deadline: close the connection, or declare
// another flow on it.
type Quenched struct {
	// State is the flow's state when the kill was noticed.
	State State
}

func (e *Quenched) Error() string {
	return fmt.Sprintf("sluice: the kernel killed the flow after %d bytes because it cannot meet its deadline: close the "+
		"connection, or declare another flow on it", e.State.AckedBytes)
}
