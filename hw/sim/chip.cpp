// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs hw/formal/chip_proof.sv with random inputs: every assertion of it is checked in every cycle.
// Usage: chip RUNS CYCLES SEED. Each run has its own straps, and for each input its own odds, so
// that some runs are quick where others wait for long. Exit code 0: nothing failed; else the
// assertion that did is named.
#include "Vchip_proof.h"
#include "verilated.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

uint64_t state;

uint64_t random64() { // splitmix64
    uint64_t z = state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// Bits that are one with odds of 1 in 2, 4, 8 or 32.
unsigned bits(unsigned odds) {
    unsigned value = unsigned(random64());
    for (; odds > 0; odds--)
        value &= unsigned(random64());
    return value;
}

struct Input {
    CData *port;
    unsigned width, odds;
};

void run(uint64_t cycles) {
    VerilatedContext context;
    context.assertOn(true);
    auto dut = std::make_unique<Vchip_proof>(&context);
    Vchip_proof &d = *dut;
    Input inputs[] = {
        {&d.os_acts, 1}, {&d.os_starts, 1}, {&d.os_aborts, 1}, {&d.dirties, 1},
        {&d.dead_leaves, 1}, {&d.asks, 2}, {&d.asked_name, 2}, {&d.asks_again, 2},
        {&d.retries, 2}, {&d.asked_kind, 4}, {&d.core_uses, 1}, {&d.core_writes, 1},
        {&d.core_evicts, 1}, {&d.core_answers, 1}, {&d.presents, 2}, {&d.takes, 2},
        {&d.op_go, 2}, {&d.answer_go, 2}, {&d.put_go, 2}, {&d.release_go, 2},
        {&d.report_go, 2}, {&d.keeps, 2}, {&d.deliver, 4}, {&d.cores_go, 1}, {&d.record_go, 1},
    };
    static const unsigned odds[] = {0, 0, 0, 1, 2, 4};
    for (auto &input : inputs)
        input.odds = odds[random64() % 6];
    d.cacheable = random64() & 1;
    d.parallel = random64() & 1;
    d.announce = random64() & 1;
    d.window = 1 + (random64() & 1);
    d.frame_a = random64() & 3;
    d.frame_b = (d.frame_a + 1 + random64() % 3) & 3;
    d.index = random64() & 1;
    for (uint64_t cycle = 0; cycle < cycles; cycle++) {
        for (auto &input : inputs)
            *input.port = CData(bits(input.odds) & ((1u << input.width) - 1));
        d.calms = cycle + 100 > cycles; // at last everything has to end
        d.clock = 0;
        d.eval();
        d.clock = 1;
        d.eval();
    }
}

} // namespace

int main(int count, char **arguments) {
    if (count != 4) {
        std::fprintf(stderr, "usage: chip RUNS CYCLES SEED\n");
        return 2;
    }
    uint64_t runs = std::strtoull(arguments[1], nullptr, 10);
    uint64_t cycles = std::strtoull(arguments[2], nullptr, 10);
    state = std::strtoull(arguments[3], nullptr, 10);
    for (uint64_t n = 0; n < runs; n++)
        run(cycles);
    std::printf("chip: no assertion fails in %llu cycles, seed %s\n",
                static_cast<unsigned long long>(runs * cycles), arguments[3]);
    return 0;
}
