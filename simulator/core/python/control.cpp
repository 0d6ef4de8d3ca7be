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
	nb::enum_<Control>(m, "Control")
		.value("dctcp", Control::Dctcp)
		.value("ucp", Control::Ucp)
		.value("d2tcp", Control::D2tcp)
		.value("datcp", Control::Datcp)
		.value("mcp", Control::Mcp)
		.value("reno", Control::Reno)
		.value("cubic", Control::Cubic)
		.value("pfabric", Control::Pfabric)
		.value("d3", Control::D3);
	nb::enum_<Echo>(m, "Echo")
		.value("none", Echo::None)
		.value("standard", Echo::Standard)
		.value("exact", Echo::Exact);
}

} // namespace sluice
