// SPDX-License-Identifier: MIT OR Apache-2.0
// Properties of the front end, with any descriptors, slices and cores that answer what they were
// asked in any order and at any time, and answers that nobody was asked for. The reader of records
// is prompt, or as late as it likes; what an entry is at is followed, by its records, only with the
// prompt one. Two entries, two slices, one core, four pages of memory; the host and a guest, which
// may be granted any frames and any share at the beginning.
`default_nettype none

module controller_proof (
    input wire logic       clock,
    input wire logic       cacheable, parallel, announce, prompt, hold, drop,
    input wire logic       command_valid, command_clear, command_start,
    input wire logic [1:0] command_src, command_dst,
    input wire logic       command_function, drop_function,
    input wire logic [1:0] first_frame, share,
    input wire logic [2:0] frames,
    input wire logic       slices_ready, cores_ready, record_ready,
    input wire logic       answer_valid, answer_of_core, answer_slot
);
    logic       command_ready, slices_valid, slices_all, cores_valid, send_slot, send_wide;
    logic       answer_ready, record_valid, record_clear, record_start, record_wide;
    logic [3:0] slices_kind, cores_kind;
    logic [1:0] send_src, send_dst, record_src, record_dst, used;
    logic [4:0] record_status;
    logic       record_function;
    logic [1:0] owners;

    logic started = 1'b0;
    always_ff @(posedge clock) started <= 1'b1;

    // Straps hold still.
    logic is_cacheable, is_parallel, announces, is_prompt;
    logic [1:0] its_first, its_share;
    logic [2:0] its_frames;
    always_ff @(posedge clock) if (!started) begin
        is_cacheable <= cacheable;
        is_parallel  <= parallel;
        announces    <= announce;
        is_prompt    <= prompt;
        its_first    <= first_frame;
        its_frames   <= frames;
        its_share    <= share;
    end
    // The grant comes in the first cycle; until then the guest has nothing.
    logic granted = 1'b0;
    always_ff @(posedge clock) granted <= started;
    always_comb if (!started) assume (frames <= 3'd4);
    always_comb if (started && is_prompt) assume (record_ready);

    ctg_controller #(
        .ENTRIES(2), .SLICES(2), .CORES(1), .LINE_BITS(3), .SMALL(1), .LARGE(1), .QUEUE(2),
        .RECORDS(2), .FUNCTION_BITS(1)
    ) dut (
        .clock(clock), .reset(!started), .cacheable(is_cacheable), .parallel(is_parallel),
        .announce(announces), .pages(3'd3), .hold(hold), .drop(drop),
        .drop_function(drop_function), .grant_valid(started && !granted), .grant_function(1'b1),
        .grant_first(its_first), .grant_pages(its_frames), .grant_entries(its_share),
        .command_function(command_function),
        .command_valid(command_valid), .command_ready(command_ready),
        .command_clear(command_clear), .command_start(command_start), .command_wide(1'b0),
        .command_src(command_src), .command_dst(command_dst),
        .slices_valid(slices_valid), .slices_ready(slices_ready), .slices_kind(slices_kind),
        .slices_all(slices_all), .cores_valid(cores_valid), .cores_ready(cores_ready),
        .cores_kind(cores_kind), .send_slot(send_slot), .send_src(send_src),
        .send_dst(send_dst), .send_wide(send_wide),
        .answer_valid(answer_valid), .answer_ready(answer_ready),
        .answer_of_core(answer_of_core), .answer_slot(answer_slot),
        .record_valid(record_valid), .record_ready(record_ready), .record_clear(record_clear),
        .record_start(record_start), .record_wide(record_wide), .record_src(record_src),
        .record_dst(record_dst), .record_status(record_status), .record_function(record_function),
        .view_used(used), .view_owners(owners)
    );

    // Answers that slices and cores owe, by entry; and what each entry is at, as its messages and
    // records say.
    localparam logic [1:0] FREE = 0, BUSY = 1, RESTS = 2;
    logic [1:0] owed0, owed1, at0, at1, src0, src1, dst0, dst1;
    logic       core0, core1;
    wire logic [1:0] asked = slices_valid && slices_ready ? (slices_all ? 2'd2 : 2'd1) : 2'd0;
    wire logic       told  = cores_valid && cores_ready;
    wire logic       heard = answer_valid && answer_ready;
    wire logic       taken = record_valid && record_ready;
    wire logic       ends  = taken && record_status < 5'd16;
    // Answers that nobody owes may come, too, and change nothing.
    wire logic  stray = answer_of_core ? !(answer_slot ? core1 : core0)
        : (answer_slot ? owed1 : owed0) == 2'd0;

    always_ff @(posedge clock) begin
        if (!started) begin
            owed0 <= '0;
            owed1 <= '0;
            core0 <= '0;
            core1 <= '0;
            at0 <= FREE;
            at1 <= FREE;
        end else begin
            owed0 <= owed0 + (send_slot ? 2'd0 : asked)
                - {1'b0, heard && !stray && !answer_of_core && !answer_slot};
            owed1 <= owed1 + (send_slot ? asked : 2'd0)
                - {1'b0, heard && !stray && !answer_of_core && answer_slot};
            if (told && !send_slot) core0 <= 1'b1;
            else if (heard && answer_of_core && !answer_slot) core0 <= 1'b0;
            if (told && send_slot) core1 <= 1'b1;
            else if (heard && answer_of_core && answer_slot) core1 <= 1'b0;
            if ((asked != '0 || told) && !send_slot) at0 <= BUSY;
            else if (ends && at0 == BUSY && record_src == src0)
                at0 <= record_status == ctg_pkg::S_CLEARED ? FREE : RESTS;
            if ((asked != '0 || told) && send_slot) at1 <= BUSY;
            else if (ends && at1 == BUSY && record_src == src1)
                at1 <= record_status == ctg_pkg::S_CLEARED ? FREE : RESTS;
            if (asked != '0 && slices_kind == ctg_pkg::INSTALL && !send_slot) begin
                src0 <= send_src;
                dst0 <= send_dst;
            end
            if (asked != '0 && slices_kind == ctg_pkg::INSTALL && send_slot) begin
                src1 <= send_src;
                dst1 <= send_dst;
            end
        end
    end

    // Commands without a record so far, and for how long nothing has been under way outside.
    logic [2:0] unanswered;
    logic [2:0] quiet;
    wire logic  accepted = command_valid && command_ready;
    wire logic  still = !slices_valid && !cores_valid && !record_valid && !hold && !drop
        && owed0 == '0 && owed1 == '0 && !core0 && !core1 && !accepted && !heard;
    always_ff @(posedge clock) begin
        if (!started) begin
            unanswered <= '0;
            quiet      <= '0;
        end else begin
            unanswered <= unanswered + {2'd0, accepted} - {2'd0, taken};
            if (!still)
                quiet <= '0;
            else if (quiet != 3'd7)
                quiet <= quiet + 1'b1;
        end
    end

    always_ff @(posedge clock) if (started) begin
        // Records are only of commands, and each command gets one: when slices, cores and the
        // reader of records owe nothing, it is there after seven cycles at most.
        owing:    assert (!taken || unanswered != '0);
        bounded:  assert (unanswered <= 3'd6);
        answered: assert (quiet != 3'd7 || unanswered == '0);
        inside:   assert (!(slices_valid && slices_kind == ctg_pkg::INSTALL)
            || (send_src < 2'd3 && send_dst < 2'd3 && send_src != send_dst));
        // A guest moves its own frames, and holds no more entries than its share.
        yours:    assert (!(slices_valid && slices_kind == ctg_pkg::INSTALL && owners[send_slot])
            || (send_src >= its_first && {1'b0, send_src} < {1'b0, its_first} + its_frames
                && send_dst >= its_first && {1'b0, send_dst} < {1'b0, its_first} + its_frames));
        shared:   assert ({1'b0, used[0] && owners[0]} + {1'b0, used[1] && owners[1]} <= its_share);
        // Nobody is asked again who has not answered.
        patient:  assert (!slices_valid || (send_slot ? owed1 : owed0) == '0);
        marked:   assert (!cores_valid || !(send_slot ? core1 : core0));
        uncached: assert (!(is_cacheable && cores_valid));
    end

    always_ff @(posedge clock) if (started && is_prompt) begin
        // Nothing waits for nobody.
        moving0:  assert (quiet != 3'd7 || at0 != BUSY);
        moving1:  assert (quiet != 3'd7 || at1 != BUSY);
        // The table is never overfull: only a free place is given away.
        place:    assert (!(slices_valid && slices_kind == ctg_pkg::INSTALL)
            || (send_slot ? at1 : at0) != RESTS);
        held0:    assert (at0 != RESTS || used[0]);
        held1:    assert (at1 != RESTS || used[1]);
        // No page takes part in two migrations, none lies outside memory or is moved onto itself.
        apart:    assert (!(at0 == RESTS && at1 == RESTS) || (src0 != src1 && src0 != dst1
            && dst0 != src1 && dst0 != dst1));
        // A record of success is of a migration that was under way; a refusal is none of these.
        known:    assert (!ends || (at0 == BUSY && record_src == src0 && record_dst == dst0)
            || (at1 == BUSY && record_src == src1 && record_dst == dst1));
    end
endmodule

`default_nettype wire
