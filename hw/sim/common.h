// SPDX-License-Identifier: MIT OR Apache-2.0
// Lines of a trace, and what the co-simulation keeps beside the hardware.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "verilated.h"

using Line = std::vector<int64_t>; // kind, then its numbers

[[noreturn]] inline void fail(const std::string &what);

// Bits of a port of any width.
template <class T> uint64_t bits(const T &port, int from, int width) {
    return (uint64_t(port) >> from) & ((uint64_t(1) << width) - 1);
}
template <std::size_t N> uint64_t bits(const VlWide<N> &port, int from, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; i++)
        value |= uint64_t(port[(from + i) / 32] >> ((from + i) % 32) & 1) << i;
    return value;
}

struct Expected {
    std::vector<Line> lines;

    // Takes out the line that the hardware has just produced.
    bool take(const Line &line) {
        for (size_t i = 0; i < lines.size(); i++)
            if (lines[i] == line) {
                lines.erase(lines.begin() + long(i));
                return true;
            }
        return false;
    }
};

inline uint64_t events, cycles;
inline std::string event_text;
inline std::map<std::string, uint64_t> seen; // coverage: event, state and answers
constexpr int PATIENCE = (2 << LARGE) + 64;

inline std::string show(const Line &line) {
    std::string text(1, char(line[0]));
    for (size_t i = 1; i < line.size(); i++)
        text += " " + std::to_string(line[i]);
    return text;
}

inline void fail(const std::string &what) {
    std::printf("DIFFERENT at event %llu: %s\n  event: %s\n", (unsigned long long)events,
                what.c_str(), event_text.c_str());
    std::exit(1);
}
