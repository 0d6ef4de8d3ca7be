// SPDX-License-Identifier: Apache-2.0
#include "transport/control/control_file.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <utility>

namespace sluice
{

std::shared_ptr<void> load_library(const std::string &path)
{
	void *opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);

	if (!opened)
		throw std::invalid_argument(dlerror()); // NOLINT(concurrency-mt-unsafe): its text is the thread's own
	return {opened, dlclose};
}

ControlFile::ControlFile(const std::string &library, std::vector<std::uint32_t> parameters)
    : library_(load_library(library)), parameters_(std::move(parameters))
{
	hooks_ = static_cast<const sl_hooks *>(dlsym(library_.get(), "sl_hooks"));
	if (!hooks_ || hooks_->version != SL_HOOKS_VERSION || hooks_->parameters != parameters_.size() ||
	    hooks_->state_bytes > SL_STATE_MAX)
		throw std::invalid_argument(library + " is no control of this version with " +
					    std::to_string(parameters_.size()) + " parameters");
}

} // namespace sluice
