// SPDX-License-Identifier: Apache-2.0
// The congestion controls as Python names them.
#include "transport/control/control.hpp"

#include <nanobind/nanobind.h>

#include "python/bindings.hpp"

namespace nb = nanobind;

namespace sluice
{

void bind_control(nb::module_ &m)
{
	nb::enum_<Control> controls(m, "Control");
#define SLUICE_VALUE(name) controls.value(#name, Control::name);
	SL_CONTROLS(SLUICE_VALUE)
#undef SLUICE_VALUE
	nb::enum_<Echo>(m, "Echo")
		.value("none", Echo::None)
		.value("standard", Echo::Standard)
		.value("exact", Echo::Exact);
}

} // namespace sluice
