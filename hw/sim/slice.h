// SPDX-License-Identifier: MIT OR Apache-2.0
// A Verilated slice beside the protocol's.
#pragma once
#include "Vctg_slice.h"
#include "common.h"
#if VM_TRACE
#include <memory>

#include "verilated_vcd_c.h"
#endif

#if VM_TRACE
// The ports of slice 0 before each edge of its clock, for the replay through mapped gates.
inline std::unique_ptr<VerilatedVcdC> ports;
#endif

struct Slice {
    int id;
    VerilatedContext context;
    Vctg_slice dut{&context};
    std::map<int64_t, int> tags; // of lines under way, by index

    explicit Slice(int number) : id(number) {
        dut.id = number;
#if VM_TRACE
        if (number == 0) {
            context.traceEverOn(true);
            ports = std::make_unique<VerilatedVcdC>();
            dut.trace(ports.get(), 1);
            ports->open("ports.vcd");
        }
#endif
    }

    // A rising edge, all inputs being set.
    void rise() {
#if VM_TRACE
        if (id == 0)
            ports->dump(clocks++);
#endif
        dut.clock = 1;
        dut.eval();
    }
    uint64_t clocks = 0;

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
        rise();
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
