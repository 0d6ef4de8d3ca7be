// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace sluice
{

void bind_control(nanobind::module_ &m);
void bind_settings(nanobind::module_ &m);
void bind_fabric(nanobind::module_ &m);

} // namespace sluice
