// SPDX-License-Identifier: MIT OR Apache-2.0
// The Verilated front end beside the protocol's.
#pragma once
#include "Vctg_controller.h"
#include "common.h"

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
                      int64_t(dut.record_src), int64_t(dut.record_dst), dut.record_status,
                      dut.record_function};
            if (!expected.take(line))
                fail("a record that should not be: " + show(line));
            dut.record_ready = 1;
            seen["record " + std::to_string(dut.record_status) +
                 (dut.record_function ? " of a guest" : " of the host")]++;
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
        dut.command_function = e[7];
        dut.clock = 0;
        dut.eval();
        if (dut.command_ready != e[6])
            fail("the work queue says ready " + std::to_string(dut.command_ready));
        tick(expected);
        dut.command_valid = 0;
        seen["submit " + std::to_string(e[6])]++;
    }

    // The frames and the share of a guest's function.
    void grant(const Line &e, Expected &expected) {
        dut.grant_valid = 1;
        dut.grant_function = e[1];
        dut.grant_first = e[2];
        dut.grant_pages = e[3];
        dut.grant_entries = e[4];
        tick(expected);
        dut.grant_valid = 0;
    }

    // Reset of a function: its descriptors come out of the queue, whatever else waits there.
    void drop(const Line &e, Expected &expected) {
        dut.drop = 1;
        dut.drop_function = e[1];
        tick(expected);
        dut.drop = 0;
        for (int i = 0; i < 16; i++)
            tick(expected);
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
