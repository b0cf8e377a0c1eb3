// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes the Verilated slices and controller through a trace of crates/rtl-check and compares each
// event with what the protocol's code says. The trace comes on standard input: an event in lower
// case, then all that it leads to in upper case. Exit code 0: equal throughout; 1: a difference,
// which is printed with the event.
#include "controller.h"
#include "slice.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

#include <cstring>
#include <memory>

namespace {

std::vector<std::unique_ptr<Slice>> slices;
std::unique_ptr<Controller> controller;

void reset(const Line &e) {
    Expected none;
    for (auto &slice : slices) {
        slice->dut.cacheable = e[1];
        slice->dut.parallel = e[2];
        slice->dut.window = e[4];
        slice->dut.reset = 1;
        slice->dut.clock = 0;
        slice->dut.eval();
        slice->rise();
        slice->dut.reset = 0;
        slice->tags.clear();
        slice->under_way = 0;
        slice->tick(none, false);
    }
    auto &dut = controller->dut;
    dut.cacheable = e[1];
    dut.parallel = e[2];
    dut.announce = e[3];
    dut.hold = 1;
    dut.pages = e[5];
    dut.reset = 1;
    dut.clock = 0;
    dut.eval();
    dut.clock = 1;
    dut.eval();
    dut.reset = 0;
    controller->tick(none);
}

void run(const Line &e, Expected &expected) {
    auto slice = [&]() -> Slice & { return *slices.at(size_t(e[1])); };
    switch (char(e[0])) {
    case 'z': reset(e); break;
    case 'r': slice().request(e, expected); break;
    case 'm': slice().message_in(e, expected); break;
    case 'o': slice().open(e, expected); break;
    case 'a': slice().answer(e[2], e[3], e[4], expected); break;
    case 'x': slice().settle(expected, true); break;
    case 'c': controller->submit(e, expected); break;
    case 'q':
        controller->dut.hold = 0;
        controller->tick(expected);
        controller->dut.hold = 1;
        controller->settle(expected);
        break;
    case 's': controller->drop(e, expected); break;
    case 'g': controller->grant(e, expected); break;
    case 'w': controller->answer(e, expected); break;
    default: fail("unknown event");
    }
    if (!expected.lines.empty())
        fail("missing: " + show(expected.lines[0]));
    events++;
}

bool parse(const char *text, Line &line) {
    line.clear();
    if (*text < 'A')
        return false;
    line.push_back(*text++);
    char *end;
    while (*text == ' ') {
        line.push_back(std::strtoll(text, &end, 10));
        text = end;
    }
    return true;
}

} // namespace

int main(int argc, char **argv) {
    Verilated::commandArgs(argc, argv);
    controller = std::make_unique<Controller>();
    for (int i = 0; i < SLICES; i++)
        slices.push_back(std::make_unique<Slice>(i));
    static char text[512];
    Line event, line;
    Expected expected;
    while (std::fgets(text, sizeof text, stdin)) {
        if (!parse(text, line))
            continue;
        if (line[0] < 'a') {
            expected.lines.push_back(line);
            continue;
        }
        if (!event.empty())
            run(event, expected);
        event = line;
        expected.lines.clear();
        event_text = text;
    }
    if (event.empty()) {
        std::printf("cosim: no trace on standard input\n");
        return 2;
    }
    run(event, expected);
    if (argc > 1 && std::strcmp(argv[1], "--kinds") == 0)
        for (auto &[kind, times] : seen)
            std::printf("%10llu  %s\n", (unsigned long long)times, kind.c_str());
#if VM_COVERAGE
    VerilatedCov::write("coverage.dat");
#endif
#if VM_TRACE
    ports->close();
    ports.reset();
#endif
    std::printf("equal: %llu events, %llu cycles, %zu kinds of steps\n",
                (unsigned long long)events, (unsigned long long)cycles, seen.size());
    return 0;
}
