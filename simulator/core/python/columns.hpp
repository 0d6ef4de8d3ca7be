// SPDX-License-Identifier: Apache-2.0
// numpy arrays in and out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <vector>

namespace sluice
{

template <class T>
using Column = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

// A numpy array that owns a copy of the values.
template <class T>
nanobind::ndarray<nanobind::numpy, T> array(const std::vector<T> &values, std::initializer_list<std::size_t> shape)
{
	T *data = new T[values.size() + 1];
	nanobind::capsule owner(data, [](void *p) noexcept { delete[] static_cast<T *>(p); });

	std::copy(values.begin(), values.end(), data);
	return nanobind::ndarray<nanobind::numpy, T>(data, shape, owner);
}

template <class T> nanobind::ndarray<nanobind::numpy, T> column(const std::vector<T> &values)
{
	return array(values, {values.size()});
}

} // namespace sluice
