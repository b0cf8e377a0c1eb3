// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes the Verilated slices and controller through a trace of crates/rtl-check and compares each
// event with what the protocol's code says. The trace comes on standard input: an event in lower
// case, then all that it leads to in upper case. Exit code 0: equal throughout; 1: a difference,
// which is printed with the event.
#include "Vctg_controller.h"
#include "Vctg_slice.h"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

using Line = std::vector<int64_t>; // kind, then its numbers

[[noreturn]] void fail(const std::string &what);

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

uint64_t events, cycles;
std::string event_text;
std::map<std::string, uint64_t> seen; // coverage: event, state and answers
constexpr int PATIENCE = (2 << LARGE) + 64;

std::string show(const Line &line) {
    std::string text(1, char(line[0]));
    for (size_t i = 1; i < line.size(); i++)
        text += " " + std::to_string(line[i]);
    return text;
}

void fail(const std::string &what) {
    std::printf("DIFFERENT at event %llu: %s\n  event: %s\n", (unsigned long long)events,
                what.c_str(), event_text.c_str());
    std::exit(1);
}

struct Slice {
    int id;
    VerilatedContext context;
    Vctg_slice dut{&context};
    std::map<int64_t, int> tags; // of lines under way, by index

    explicit Slice(int number) : id(number) { dut.id = number; }

    bool ends_pass() const { return dut.out_kind >= 9 || dut.out_kind == 1; }

    // One clock. What the slice offers is taken when it is expected. The end of a pass may wait
    // for the protocol's next step; anything else that is not expected is a difference.
    void tick(Expected &expected, bool in_event_of_engine) {
        dut.clock = 0;
        dut.out_ready = dut.put_ready = dut.release_ready = 0;
        dut.eval();
        if (dut.put_valid) {
            Line line{'U', id, dut.put_is_own, dut.put_handover, int64_t(dut.put_line),
                      dut.put_handover ? int64_t(dut.put_owner) : 0};
            if (!expected.take(line))
                fail("a line is put that should not be: " + show(line));
            dut.put_ready = 1;
            dut.eval();
        }
        if (dut.release_valid) {
            Line line{'L', id, int64_t(dut.release_line)};
            if (!expected.take(line))
                fail("a line opens that should not: " + show(line));
            dut.release_ready = 1;
            under_way--;
        }
        int limit = dut.op_phase == 2 ? dut.window : 1;
        if (dut.op_valid && under_way >= limit)
            fail("the engine begins more lines than its window holds");
        if (dut.out_valid) {
            Line line = message();
            bool end = line[2] >= 9 || line[2] == 1;
            bool own = line[2] == 11 || line[2] == 13;
            if ((!end || own || in_event_of_engine) && expected.take(line))
                dut.out_ready = 1;
            else if (!end || own)
                fail("a message that should not be: " + show(line));
        }
        dut.eval();
        dut.clock = 1;
        dut.eval();
        cycles++;
    }

    Line message() {
        int64_t kind = dut.out_kind, target = kind >= 9 ? -1 : int64_t(dut.out_target);
        int64_t index = 0, owner = 0;
        if (kind == 5 || kind == 6)
            index = dut.out_index;
        if (kind == 6)
            owner = dut.out_owner;
        if (kind == 7)
            index = acked;
        return {'O', id, kind, target, int64_t(dut.out_slot), index, owner};
    }
    int under_way = 0;  // lines that the engine has begun and not passed
    int64_t acked = 0; // index of the line that is acknowledged

    void settle(Expected &expected, bool engine) {
        for (int i = 0; i < 3; i++)
            tick(expected, engine);
        for (int i = 0; !expected.lines.empty() && i < PATIENCE; i++) {
            drop_views(expected);
            tick(expected, engine);
        }
    }

    // The table, as the trace says it is.
    bool holds(const Line &line) {
        if (line[0] == 'N')
            return __builtin_popcountll(uint64_t(dut.view_used)) == line[2];
        int slot = int(line[2]);
        return bits(dut.view_used, slot, 1) == 1 &&
               bits(dut.view_clearing, slot, 1) == uint64_t(line[3]) &&
               bits(dut.view_phase, slot * 3, 3) == uint64_t(line[4]) &&
               (line[5] < 0 ||
                bits(dut.view_pointer, slot * (LARGE + 1), LARGE + 1) == uint64_t(line[5])) &&
               bits(dut.view_forwards, slot * FWD_BITS, FWD_BITS) == uint64_t(line[6]);
    }

    void drop_views(Expected &expected) {
        bool others = false;
        for (auto &line : expected.lines)
            others |= line[0] != 'T' && line[0] != 'N';
        if (others)
            return;
        std::vector<Line> left;
        for (auto &line : expected.lines)
            if (!holds(line))
                left.push_back(line);
        expected.lines = left;
    }

    void request(const Line &e, Expected &expected) {
        dut.request_valid = 1;
        dut.request_line = e[2];
        dut.request_wants_copy = e[3];
        dut.request_resolved = e[4];
        dut.request_has_origin = e[5];
        dut.request_origin = e[6];
        dut.request_origin_slot = e[7];
        tick(expected, false);
        dut.request_valid = 0;
        dut.clock = 0;
        dut.decision_take = e[8];
        dut.eval();
        bool same = dut.decision_valid && dut.decision_action == e[9] &&
                    int64_t(dut.decision_line) == e[2];
        if (e[9] == 0)
            same &= int64_t(dut.decision_at) == e[10];
        if (e[9] == 1) {
            same &= dut.decision_target == e[11] && dut.decision_resolved == e[12] &&
                    dut.decision_has_origin == e[13];
            if (e[13])
                same &= dut.decision_origin == e[14] && dut.decision_origin_slot == e[15];
        }
        if (!same)
            fail("decision: valid " + std::to_string(dut.decision_valid) + " action " +
                 std::to_string(dut.decision_action) + " at " +
                 std::to_string(dut.decision_at) + " target " +
                 std::to_string(dut.decision_target) + " resolved " +
                 std::to_string(dut.decision_resolved));
        tick(expected, false);
        dut.decision_take = 0;
        int phase = 7;
        for (int slot = 0; slot < ENTRIES; slot++)
            if (bits(dut.view_hit, slot, 1))
                phase = int(bits(dut.view_phase, slot * 3, 3));
        settle(expected, false);
        seen["request action " + std::to_string(e[9]) + " taken " + std::to_string(e[8]) +
             " copy " + std::to_string(e[3]) + " resolved " + std::to_string(e[4]) + " phase " +
             std::to_string(phase)]++;
    }

    void message_in(const Line &e, Expected &expected) {
        acked = e[7];
        dut.in_valid = 1;
        dut.in_kind = e[2];
        dut.in_slot = e[3];
        dut.in_src = e[4];
        dut.in_dst = e[5];
        dut.in_wide = e[6];
        dut.in_index = e[7];
        dut.in_owner = e[8];
        dut.in_from = e[9];
        dut.in_tag = e[2] == 7 ? tags[e[7]] : 0;
        bool taken = false;
        for (int i = 0; !taken && i < PATIENCE; i++) {
            dut.clock = 0;
            dut.eval();
            // The line of a copy is put in the cycle in which the message is taken.
            dut.put_ready = 1;
            dut.eval();
            taken = dut.in_ready;
            tick(expected, false);
        }
        dut.in_valid = 0;
        if (!taken)
            fail("the message is not taken");
        int phase = int(bits(dut.view_phase, int(e[3]) * 3, 3));
        settle(expected, false);
        seen["message " + std::to_string(e[2]) + " phase " + std::to_string(phase)]++;
    }

    void open(const Line &e, Expected &expected) {
        for (int i = 0; !dut.op_valid && i < PATIENCE; i++)
            tick(expected, false);
        if (!dut.op_valid || dut.op_phase != e[2] || int64_t(dut.op_line) != e[3])
            fail("the engine wants line " + std::to_string(dut.op_line) + ", phase " +
                 std::to_string(dut.op_phase) + ", valid " + std::to_string(dut.op_valid));
        seen["line of phase " + std::to_string(e[2]) + " begins " + std::to_string(e[4])]++;
        if (!e[4])
            return;
        int tag = dut.op_tag;
        tags[e[6]] = tag;
        dut.op_ready = 1;
        tick(expected, false);
        dut.op_ready = 0;
        under_way++;
        if (e[5])
            answer(e[6], 0, 0, expected);
        else
            settle(expected, false);
    }

    void answer(int64_t index, int64_t kept, int64_t owner, Expected &expected) {
        dut.answer_valid = 1;
        dut.answer_tag = tags[index];
        dut.answer_kept = kept;
        dut.answer_owner = owner;
        bool taken = false, copies = dut.op_phase == 2;
        for (int i = 0; !taken && i < PATIENCE; i++) {
            dut.clock = 0;
            dut.out_ready = dut.put_ready = 1;
            dut.eval();
            taken = dut.answer_ready;
            tick(expected, true);
        }
        dut.answer_valid = 0;
        if (!taken)
            fail("the answer is not taken");
        under_way -= !copies;
        settle(expected, false);
        seen["answer kept " + std::to_string(kept)]++;
    }
};

struct Controller {
    VerilatedContext context;
    Vctg_controller dut{&context};

    void tick(Expected &expected) {
        dut.clock = 0;
        dut.slices_ready = dut.cores_ready = dut.record_ready = 0;
        dut.eval();
        if (dut.cores_valid) {
            Line line{'K', dut.cores_kind, dut.send_slot};
            if (!expected.take(line))
                fail("a message to the cores that should not be: " + show(line));
            dut.cores_ready = 1;
        }
        if (dut.slices_valid) {
            Line line{'B', dut.slices_kind, dut.send_slot, dut.slices_all, int64_t(dut.send_src),
                      int64_t(dut.send_dst), dut.send_wide};
            if (!expected.take(line))
                fail("a message to the slices that should not be: " + show(line));
            dut.slices_ready = 1;
        }
        if (dut.record_valid) {
            Line line{'D', dut.record_clear, dut.record_start, dut.record_wide,
                      int64_t(dut.record_src), int64_t(dut.record_dst), dut.record_status};
            if (!expected.take(line))
                fail("a record that should not be: " + show(line));
            dut.record_ready = 1;
            seen["record " + std::to_string(dut.record_status)]++;
        }
        dut.eval();
        dut.clock = 1;
        dut.eval();
        cycles++;
    }

    void settle(Expected &expected) {
        for (int i = 0; i < 6 || (!expected.lines.empty() && i < 40); i++)
            tick(expected);
    }

    void submit(const Line &e, Expected &expected) {
        dut.command_valid = 1;
        dut.command_clear = e[1];
        dut.command_start = e[2];
        dut.command_wide = e[3];
        dut.command_src = e[4];
        dut.command_dst = e[5];
        dut.clock = 0;
        dut.eval();
        if (dut.command_ready != e[6])
            fail("the work queue says ready " + std::to_string(dut.command_ready));
        tick(expected);
        dut.command_valid = 0;
        seen["submit " + std::to_string(e[6])]++;
    }

    void answer(const Line &e, Expected &expected) {
        dut.answer_valid = 1;
        dut.answer_of_core = e[1];
        dut.answer_slot = e[2];
        tick(expected);
        dut.answer_valid = 0;
        settle(expected);
    }
};

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
        slice->dut.clock = 1;
        slice->dut.eval();
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
    case 's':
        controller->dut.drop = 1;
        controller->tick(expected);
        controller->dut.drop = 0;
        for (int i = 0; i < 16; i++)
            controller->tick(expected);
        break;
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
    std::printf("equal: %llu events, %llu cycles, %zu kinds of steps\n",
                (unsigned long long)events, (unsigned long long)cycles, seen.size());
    return 0;
}
