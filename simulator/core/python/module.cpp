// SPDX-License-Identifier: Apache-2.0
// The Python module `sluice.simulator._fabric`.
#include <nanobind/nanobind.h>

#include "python/bindings.hpp"

NB_MODULE(_fabric, m)
{
	nanobind::set_leak_warnings(false); // a traceback may hold objects when the interpreter ends
	m.doc() = "Packet-level simulation of a fabric. Times are picoseconds.";
	sluice::bind_control(m);
	sluice::bind_settings(m);
	sluice::bind_fabric(m);
}
