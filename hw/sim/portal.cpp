// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes the Verilated registers of a function through a trace of crates/rtl-check (`portal`) and
// compares each answer with the protocol's. Exit code 0: equal throughout; 1: a difference.
#include "Vctg_portal.h"
#include "verilated.h"

#include <cstdint>
#include <cstdio>
#include <map>

int main() {
    Vctg_portal dut;
    dut.reset = 1;
    dut.clock = 0;
    dut.eval();
    dut.clock = 1;
    dut.eval();
    dut.reset = 0;
    char text[256];
    unsigned long long memory;
    if (!std::fgets(text, sizeof text, stdin) || std::sscanf(text, "z %llu", &memory) != 1) {
        std::printf("portal: no trace on standard input\n");
        return 2;
    }
    dut.memory = memory;
    unsigned long long events = 0;
    std::map<int, unsigned long long> codes;
    while (std::fgets(text, sizeof text, stdin)) {
        unsigned long long reg, value, ready, code, drop, valid = 0;
        unsigned long long clear = 0, start = 0, wide = 0, src = 0, dst = 0;
        int read = std::sscanf(text,
                               "p %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu",
                               &reg, &value, &ready, &code, &drop, &valid, &clear, &start, &wide,
                               &src, &dst);
        if (read != (valid ? 11 : 6)) {
            std::printf("portal: not a line of a trace: %s", text);
            return 2;
        }
        dut.write_valid = 1;
        dut.write_register = reg;
        dut.write_value = value;
        dut.command_ready = ready;
        dut.clock = 0;
        dut.eval();
        bool same = dut.code == code && dut.drop == drop && dut.command_valid == valid &&
                    dut.retry == (valid && !ready);
        if (valid)
            same = same && dut.command_clear == clear && dut.command_start == start &&
                   dut.command_wide == wide && dut.command_src == src && dut.command_dst == dst;
        if (!same) {
            std::printf("DIFFERENT at event %llu: code %d, drop %d, valid %d, retry %d\n"
                        "  event: %s",
                        events, dut.code, dut.drop, dut.command_valid, dut.retry, text);
            return 1;
        }
        dut.clock = 1;
        dut.eval();
        dut.write_valid = 0;
        dut.clock = 0;
        dut.eval();
        codes[dut.write_register == 3 ? int(code) : -1]++;
        events++;
    }
    if (events == 0) {
        std::printf("portal: no trace on standard input\n");
        return 2;
    }
    std::printf("equal: %llu writes of registers, answers", events);
    for (auto &[code, times] : codes)
        if (code >= 0)
            std::printf(" %d: %llu", code, times);
    std::printf("\n");
    return 0;
}
