// SPDX-License-Identifier: Apache-2.0
// The driver's input: a network and its settings (a word and its values on each line), and flows
// (CSV).
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct LinkLine {
	std::uint32_t a, b; // nodes: hosts first, then switches
	std::uint64_t bps;
	std::int64_t delay_ps;
};

struct RouteLine {
	std::uint32_t at, host;
	std::vector<std::uint32_t> links; // equal-cost
};

struct FlowLine {
	std::uint32_t id;
	std::int64_t start_ps;
	std::uint32_t source, sink; // hosts
	std::uint32_t bytes;
};

struct Input {
	std::uint32_t hosts = 0, switches = 0;
	std::vector<LinkLine> links;
	std::vector<RouteLine> routes;
	std::map<std::string, std::int64_t> settings;
	std::vector<FlowLine> flows;

	std::int64_t setting(const std::string &name) const
	{
		auto found = settings.find(name);

		if (found == settings.end())
			throw std::runtime_error("the network file lacks the setting " + name);
		return found->second;
	}
};

inline std::ifstream opened(const std::string &path)
{
	std::ifstream file(path);

	if (!file)
		throw std::runtime_error("cannot read " + path);
	return file;
}

inline void read_network_line(const std::string &line, Input &input)
{
	std::istringstream words(line);
	std::string kind, name;

	words >> kind;
	if (kind == "nodes") {
		words >> input.hosts >> input.switches;
	} else if (kind == "link") {
		LinkLine &link = input.links.emplace_back();
		words >> link.a >> link.b >> link.bps >> link.delay_ps;
	} else if (kind == "route") {
		RouteLine &route = input.routes.emplace_back();
		words >> route.at >> route.host;
		for (std::uint32_t link; words >> link;)
			route.links.push_back(link);
		words.clear();
	} else if (kind == "set") {
		words >> name;
		words >> input.settings[name];
	} else {
		throw std::runtime_error("unknown line in the network file:  " + line);
	}
	if (!words)
		throw std::runtime_error("a line of the network file is too short:  " + line);
}

inline FlowLine flow_of(std::string line)
{
	FlowLine flow;

	for (char &c : line)
		c = c == ',' ? ' ' : c;
	std::istringstream numbers(line);
	if (!(numbers >> flow.id >> flow.start_ps >> flow.source >> flow.sink >> flow.bytes))
		throw std::runtime_error("a line of the flow file is no flow:  " + line);
	return flow;
}

inline Input read_input(const std::string &network, const std::string &flows)
{
	Input input;
	std::string line;

	for (std::ifstream file = opened(network); std::getline(file, line);)
		read_network_line(line, input);
	std::ifstream file = opened(flows);
	std::getline(file, line); // headings
	while (std::getline(file, line))
		input.flows.push_back(flow_of(line));
	return input;
}
