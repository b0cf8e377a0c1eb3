// SPDX-License-Identifier: MIT OR Apache-2.0
// The front end of the migration engine (Contiguitas section 3.3, interface): a work queue that
// ENQCMD fills, checks, the table of migrations that every slice replicates, and completion
// records. One for the whole chip. A command that cannot be carried out ends with an error in its
// record and changes nothing; every accepted command gets at least one record. Function 0 is the
// host's; a guest's moves the frames that the host has granted it, and no others.
`default_nettype none

module ctg_controller #(
    parameter int ENTRIES   = 16,
    parameter int SLICES    = 8,
    parameter int CORES     = 8,
    parameter int LINE_BITS = 42,
    parameter int SMALL     = 6,
    parameter int LARGE     = 15,
    parameter int QUEUE     = 8,   // work descriptors that wait
    parameter int RECORDS   = 8,   // completion records that wait to be written
    parameter int FUNCTION_BITS = 2,
    parameter int FUNCTIONS = 2**FUNCTION_BITS,
    parameter int SLOT_BITS = ENTRIES > 1 ? $clog2(ENTRIES) : 1,
    parameter int PPN_BITS  = LINE_BITS - SMALL
) (
    input  wire logic                   clock,
    input  wire logic                   reset,
    input  wire logic                   cacheable,
    input  wire logic                   parallel,
    input  wire logic                   announce,  // tell the cores when copying starts
    input  wire logic [PPN_BITS:0]      pages,     // 4 KB pages of memory
    input  wire logic                   hold,      // take no descriptor for now
    input  wire logic                   drop,      // reset of a function: drop what waits
    input  wire logic [FUNCTION_BITS-1:0] drop_function,

    // The host gives a guest's function its frames, and how many entries it may hold.
    input  wire logic                   grant_valid,
    input  wire logic [FUNCTION_BITS-1:0] grant_function,
    input  wire logic [PPN_BITS-1:0]    grant_first,
    input  wire logic [PPN_BITS:0]      grant_pages,   // 4 KB pages, at most 2^PPN_BITS
    input  wire logic [SLOT_BITS:0]     grant_entries,

    // ENQCMD: a descriptor; `command_ready` low is its "try again later".
    input  wire logic                   command_valid,
    output logic                        command_ready,
    input  wire logic [FUNCTION_BITS-1:0] command_function,
    input  wire logic                   command_clear, // Clear, else Migrate
    input  wire logic                   command_start,
    input  wire logic                   command_wide,
    input  wire logic [PPN_BITS-1:0]    command_src,
    input  wire logic [PPN_BITS-1:0]    command_dst,

    output logic                        slices_valid,
    input  wire logic                   slices_ready,
    output logic [3:0]                  slices_kind,
    output logic                        slices_all,  // else slice 0 only
    output logic                        cores_valid,
    input  wire logic                   cores_ready,
    output logic [3:0]                  cores_kind,
    output logic [SLOT_BITS-1:0]        send_slot,
    output logic [PPN_BITS-1:0]         send_src,
    output logic [PPN_BITS-1:0]         send_dst,
    output logic                        send_wide,

    input  wire logic                   answer_valid,
    output logic                        answer_ready,
    input  wire logic                   answer_of_core,
    input  wire logic [SLOT_BITS-1:0]   answer_slot,

    output logic                        record_valid,
    input  wire logic                   record_ready,
    output logic                        record_clear,
    output logic                        record_start,
    output logic                        record_wide,
    output logic [PPN_BITS-1:0]         record_src,
    output logic [PPN_BITS-1:0]         record_dst,
    output logic [4:0]                  record_status,
    output logic [FUNCTION_BITS-1:0]    record_function,

    output logic [ENTRIES-1:0]          view_used,
    output logic [ENTRIES*FUNCTION_BITS-1:0] view_owners
);
    localparam int COUNT_BITS   = $clog2((SLICES > CORES ? SLICES : CORES) + 1) + 1;
    localparam int COMMAND_BITS = 3 + 2 * PPN_BITS;
    localparam int RECORD_COUNT = $clog2(RECORDS + 1);
    localparam int EXTRA        = LARGE - SMALL;
    localparam logic [PPN_BITS-1:0]   LARGE_MASK = {PPN_BITS{1'b1}} << EXTRA;
    localparam logic [PPN_BITS:0]     LARGE_SIZE = (PPN_BITS + 1)'(64'd1 << EXTRA);
    localparam logic [COUNT_BITS-1:0] ALL_SLICES = COUNT_BITS'(SLICES);
    localparam logic [COUNT_BITS-1:0] ALL_CORES  = COUNT_BITS'(CORES);

    localparam logic [2:0] INSTALLING = 3'd0;
    localparam logic [2:0] INSTALLED  = 3'd1;
    localparam logic [2:0] COPYING    = 3'd2;
    localparam logic [2:0] FINISHING  = 3'd3;
    localparam logic [2:0] COPIED     = 3'd4;
    localparam logic [2:0] FLUSHING   = 3'd5;
    localparam logic [2:0] CLEARING   = 3'd6;

    // A function that was reset takes no descriptors until its migrations rest. What is in the
    // table cannot be dropped: lines of a page that is copied lie in two frames.
    logic [FUNCTIONS-1:0] resetting, holds, busy;
    logic [ENTRIES-1:0]   moving;

    // The work queue.
    logic                     queue_full;
    logic                     next_valid, next_take, next_dropped;
    logic                     next_clear, next_start, next_wide;
    logic [FUNCTION_BITS-1:0] next_function;
    logic [PPN_BITS-1:0]      next_src, next_dst;
    assign command_ready = !queue_full && !resetting[command_function];
    ctg_work_queue #(
        .WIDTH(COMMAND_BITS), .DEPTH(QUEUE), .FUNCTION_BITS(FUNCTION_BITS)
    ) work (
        .clock(clock), .reset(reset), .resetting(resetting), .holds(holds),
        .push(command_valid && command_ready), .push_function(command_function),
        .push_data({command_clear, command_start, command_wide, command_src, command_dst}),
        .full(queue_full), .valid(next_valid), .dropped(next_dropped), .owner(next_function),
        .data({next_clear, next_start, next_wide, next_src, next_dst}), .pop(next_take));

    // The migrations.
    logic [ENTRIES-1:0]            used, starts, wide, same, meets, own;
    logic [ENTRIES*FUNCTION_BITS-1:0] owners;
    logic [ENTRIES*PPN_BITS-1:0]   src, dst;
    logic [ENTRIES*3-1:0]          state;
    logic [ENTRIES*COUNT_BITS-1:0] waiting, cores;
    assign view_used   = used;
    assign view_owners = owners;

    genvar e;
    generate
        for (e = 0; e < ENTRIES; e = e + 1) begin : compare
            logic [PPN_BITS-1:0] a, b, mask;
            assign a    = src[e * PPN_BITS +: PPN_BITS];
            assign b    = dst[e * PPN_BITS +: PPN_BITS];
            assign mask = (wide[e] || next_wide) ? LARGE_MASK : {PPN_BITS{1'b1}};
            assign moving[e] = used[e] && state[e * 3 +: 3] != INSTALLED
                && state[e * 3 +: 3] != COPIED;
            assign own[e] = used[e]
                && owners[e * FUNCTION_BITS +: FUNCTION_BITS] == next_function;
            assign same[e] = used[e] && a == next_src && b == next_dst && wide[e] == next_wide
                && (next_function == '0 || own[e]);
            assign meets[e] = used[e] && (((a ^ next_src) & mask) == '0
                || ((a ^ next_dst) & mask) == '0 || ((b ^ next_src) & mask) == '0
                || ((b ^ next_dst) & mask) == '0);
        end
    endgenerate

    integer i;
    always_comb begin
        busy = '0;
        for (i = 0; i < ENTRIES; i = i + 1)
            if (moving[i])
                busy[owners[i * FUNCTION_BITS +: FUNCTION_BITS]] = 1'b1;
    end

    genvar f;
    generate
        for (f = 0; f < FUNCTIONS; f = f + 1) begin : function_reset
            always_ff @(posedge clock) begin
                if (reset)
                    resetting[f] <= 1'b0;
                else
                    resetting[f] <= (drop && drop_function == FUNCTION_BITS'(f))
                        || (resetting[f] && (holds[f] || busy[f]));
            end
        end
    endgenerate

    // What each guest's function may do: nothing until it is granted. There is none of the host's.
    logic [FUNCTIONS*PPN_BITS-1:0]        firsts;
    logic [FUNCTIONS*(PPN_BITS+1)-1:0]    spans;
    logic [FUNCTIONS*(SLOT_BITS+1)-1:0]   shares;
    generate
        for (f = 0; f < FUNCTIONS; f = f + 1) begin : granted
            always_ff @(posedge clock) begin
                if (reset) begin
                    firsts[f * PPN_BITS +: PPN_BITS]         <= '0;
                    spans[f * (PPN_BITS + 1) +: PPN_BITS + 1] <= '0;
                    shares[f * (SLOT_BITS + 1) +: SLOT_BITS + 1] <= '0;
                end else if (grant_valid && grant_function == FUNCTION_BITS'(f)) begin
                    firsts[f * PPN_BITS +: PPN_BITS]         <= grant_first;
                    spans[f * (PPN_BITS + 1) +: PPN_BITS + 1] <= grant_pages;
                    shares[f * (SLOT_BITS + 1) +: SLOT_BITS + 1] <= grant_entries;
                end
            end
        end
    endgenerate

    logic [SLOT_BITS-1:0] same_slot, free_slot;
    logic [SLOT_BITS:0]   own_count;
    always_comb begin
        same_slot = '0;
        free_slot = '0;
        own_count = '0;
        for (i = ENTRIES - 1; i >= 0; i = i - 1) begin
            if (same[i])
                same_slot = SLOT_BITS'(i);
            if (!used[i])
                free_slot = SLOT_BITS'(i);
            if (own[i])
                own_count = own_count + 1'b1;
        end
    end

    // What is wrong with a descriptor whatever the table holds: the least code counts. A large page
    // lies at a multiple of its size.
    logic                beyond, crooked, foreign, no_share;
    logic [PPN_BITS-1:0] own_mask, first;
    logic [PPN_BITS:0]   size, span, src_offset, dst_offset;
    logic [SLOT_BITS:0]  share;
    logic [4:0]          refusal;
    assign first      = firsts[32'(next_function) * PPN_BITS +: PPN_BITS];
    assign span       = spans[32'(next_function) * (PPN_BITS + 1) +: PPN_BITS + 1];
    assign share      = shares[32'(next_function) * (SLOT_BITS + 1) +: SLOT_BITS + 1];
    // Below the first frame the difference wraps to more than any span.
    assign src_offset = {1'b0, next_src} - {1'b0, first};
    assign dst_offset = {1'b0, next_dst} - {1'b0, first};
    assign foreign    = next_function != '0 && (span < size || src_offset > span - size
        || dst_offset > span - size);
    assign no_share   = next_function != '0 && own_count >= share;
    assign own_mask  = next_wide ? LARGE_MASK : {PPN_BITS{1'b1}};
    assign size      = next_wide ? LARGE_SIZE : {{PPN_BITS{1'b0}}, 1'b1};
    assign beyond    = pages < size || {1'b0, next_src} > pages - size
        || {1'b0, next_dst} > pages - size;
    assign crooked   = ((next_src | next_dst) & ~own_mask) != '0;
    always_comb begin
        refusal = '0;
        if (next_dropped)
            refusal = ctg_pkg::S_DROPPED;
        else if (crooked)
            refusal = ctg_pkg::S_UNALIGNED;
        else if (foreign)
            refusal = ctg_pkg::S_NOT_YOURS;
        else if (beyond)
            refusal = ctg_pkg::S_OUTSIDE_MEMORY;
        else if (((next_src ^ next_dst) & own_mask) == '0)
            refusal = ctg_pkg::S_BAD_RANGE;
    end

    // What is still to be sent of the last step: first to the cores, then to the slices. Nothing
    // else happens meanwhile, nor while the completion records have no room.
    logic [RECORD_COUNT-1:0] record_room;
    logic                    slices_pending, free_to_act, act_answer, act_command;
    assign free_to_act  = !slices_pending && !cores_valid && record_room != '0;
    assign answer_ready = free_to_act;
    assign act_answer   = answer_valid && free_to_act;
    assign act_command  = next_valid && free_to_act && !answer_valid && (!hold || next_dropped);
    assign next_take    = act_command;

    // The migration that the step is about, and its counters after an answer.
    logic [SLOT_BITS-1:0]  slot;
    logic [2:0]            its_state;
    logic [COUNT_BITS-1:0] its_waiting, its_cores;
    logic                  owed, goes_on;
    always_comb begin
        if (act_answer)
            slot = answer_slot;
        else
            slot = |same ? same_slot : free_slot;
    end
    assign its_state = state[32'(slot) * 3 +: 3];
    always_comb begin
        its_waiting = waiting[32'(slot) * COUNT_BITS +: COUNT_BITS];
        its_cores   = cores[32'(slot) * COUNT_BITS +: COUNT_BITS];
        owed        = used[slot] && (answer_of_core ? its_cores : its_waiting) != '0;
        if (act_answer && owed && answer_of_core)
            its_cores = its_cores - 1'b1;
        else if (act_answer && owed)
            its_waiting = its_waiting - 1'b1;
        goes_on = act_answer && owed && its_waiting == '0;
    end

    // One step: what is sent, what is recorded, and the state that follows.
    logic                  installs, leaves, tell_slices, tell_all, tell_cores, records;
    logic [2:0]            new_state;
    logic [3:0]            new_kind, core_kind;
    logic [4:0]            status;
    logic                  record_is_clear, record_starts;
    logic [COUNT_BITS-1:0] new_waiting;
    always_comb begin
        installs = 1'b0;
        leaves   = 1'b0;
        tell_slices = 1'b0;
        tell_all = 1'b1;
        tell_cores = 1'b0;
        records  = 1'b0;
        new_state = its_state;
        new_kind = ctg_pkg::TURN;
        core_kind = ctg_pkg::MARK;
        status   = ctg_pkg::S_NOT_FOUND;
        record_is_clear = next_clear;
        record_starts   = next_start;
        if (act_command && refusal != '0) begin
            records = 1'b1;
            status  = refusal;
        end else if (act_command && !next_clear && !(|same)) begin
            if (|meets || &used || no_share) begin
                records = 1'b1;
                status  = |meets ? ctg_pkg::S_OVERLAP : ctg_pkg::S_TABLE_FULL;
            end else begin
                installs    = 1'b1;
                new_state   = INSTALLING;
                tell_slices = 1'b1;
                new_kind    = ctg_pkg::INSTALL;
            end
        end else if (act_command && next_clear && |same
            && (its_state == INSTALLED || its_state == COPIED)) begin
            new_state   = its_state == INSTALLED ? FLUSHING : CLEARING;
            new_kind    = its_state == INSTALLED ? ctg_pkg::FLUSH : ctg_pkg::CLEAR;
            tell_slices = 1'b1;
            tell_cores  = !cacheable;
            core_kind   = ctg_pkg::UNMARK;
        end else if (act_command && !(next_start && |same && its_state == INSTALLED
            && !next_clear)) begin
            records = 1'b1;
            status  = |same ? ctg_pkg::S_COPY_IN_PROGRESS : ctg_pkg::S_NOT_FOUND;
        end else if (act_command || (goes_on && its_state == INSTALLING && starts[slot])) begin
            new_state   = COPYING;
            tell_slices = 1'b1;
            tell_all    = parallel;
            tell_cores  = !cacheable && announce;
        end else if (goes_on && its_state == COPYING) begin
            new_state   = FINISHING;
            tell_slices = 1'b1;
            new_kind    = ctg_pkg::FINISH;
        end else if (goes_on && its_state == FLUSHING) begin
            new_state   = CLEARING;
            tell_slices = 1'b1;
            new_kind    = ctg_pkg::CLEAR;
        end else if (goes_on && its_state == INSTALLING) begin
            new_state = INSTALLED;
            records   = 1'b1;
            status    = ctg_pkg::S_INSTALLED;
            record_is_clear = 1'b0;
            record_starts   = 1'b0;
        end else if (goes_on && its_state == FINISHING && its_cores == '0) begin
            new_state = COPIED;
            records   = 1'b1;
            status    = ctg_pkg::S_COPIED;
            record_is_clear = 1'b0;
            record_starts   = 1'b1;
        end else if (goes_on && its_state == CLEARING && its_cores == '0) begin
            leaves  = 1'b1;
            records = 1'b1;
            status  = ctg_pkg::S_CLEARED;
            record_is_clear = 1'b1;
            record_starts   = 1'b0;
        end
        new_waiting = tell_slices ? (tell_all ? ALL_SLICES : COUNT_BITS'(1)) : its_waiting;
    end

    genvar s;
    generate
        for (s = 0; s < ENTRIES; s = s + 1) begin : migration
            logic mine;
            assign mine = slot == SLOT_BITS'(s) && (act_answer || act_command);
            always_ff @(posedge clock) begin
                if (reset)
                    used[s] <= 1'b0;
                else if (mine && installs)
                    used[s] <= 1'b1;
                else if (mine && leaves)
                    used[s] <= 1'b0;
                if (mine && installs) begin
                    src[s * PPN_BITS +: PPN_BITS] <= next_src;
                    dst[s * PPN_BITS +: PPN_BITS] <= next_dst;
                    wide[s]   <= next_wide;
                    owners[s * FUNCTION_BITS +: FUNCTION_BITS] <= next_function;
                    starts[s] <= next_start;
                end
                if (reset)
                    state[s * 3 +: 3] <= INSTALLING;
                else if (mine && (installs || used[s]) && (!records || goes_on))
                    state[s * 3 +: 3] <= new_state;
                if (reset) begin
                    waiting[s * COUNT_BITS +: COUNT_BITS] <= '0;
                    cores[s * COUNT_BITS +: COUNT_BITS]   <= '0;
                end else if (mine && (act_answer || tell_slices)) begin
                    waiting[s * COUNT_BITS +: COUNT_BITS] <= new_waiting;
                    cores[s * COUNT_BITS +: COUNT_BITS]   <=
                        tell_cores ? its_cores + ALL_CORES : its_cores;
                end
            end
        end
    endgenerate

    always_ff @(posedge clock) begin
        if (reset) begin
            slices_pending <= 1'b0;
            cores_valid    <= 1'b0;
        end else begin
            if (tell_slices)
                slices_pending <= 1'b1;
            else if (slices_valid && slices_ready)
                slices_pending <= 1'b0;
            if (tell_cores)
                cores_valid <= 1'b1;
            else if (cores_ready)
                cores_valid <= 1'b0;
        end
        if (tell_slices) begin
            slices_kind <= new_kind;
            slices_all  <= tell_all;
            cores_kind  <= core_kind;
            send_slot   <= slot;
        end
    end
    assign slices_valid = slices_pending && !cores_valid;
    assign send_src  = src[32'(send_slot) * PPN_BITS +: PPN_BITS];
    assign send_dst  = dst[32'(send_slot) * PPN_BITS +: PPN_BITS];
    assign send_wide = wide[send_slot];

    // Completion records, in the order in which commands ended.
    logic [PPN_BITS-1:0] ended_src, ended_dst;
    logic                ended_wide;
    logic [FUNCTION_BITS-1:0] ended_function;
    assign ended_function = act_command ? next_function
        : owners[32'(slot) * FUNCTION_BITS +: FUNCTION_BITS];
    assign ended_src  = act_command ? next_src : src[32'(slot) * PPN_BITS +: PPN_BITS];
    assign ended_dst  = act_command ? next_dst : dst[32'(slot) * PPN_BITS +: PPN_BITS];
    assign ended_wide = act_command ? next_wide : wide[slot];
    localparam int RECORD_BITS = COMMAND_BITS + 5 + FUNCTION_BITS;
    logic [RECORDS-1:0]             records_filled; // first in, first out: nobody looks at these
    logic [RECORDS*RECORD_BITS-1:0] records_places;
    wire logic unused = &{1'b0, records_filled, records_places};
    ctg_queue #(.WIDTH(RECORD_BITS), .DEPTH(RECORDS)) completion (
        .clock(clock), .reset(reset), .push(records),
        .push_data({ended_function, record_is_clear, record_starts, ended_wide, ended_src,
            ended_dst, status}),
        .room(record_room), .filled(records_filled), .places(records_places), .valid(record_valid),
        .chosen({RECORD_COUNT{1'b0}}),
        .data({record_function, record_clear, record_start, record_wide, record_src, record_dst,
            record_status}),
        .pop(record_valid && record_ready));
endmodule

`default_nettype wire
