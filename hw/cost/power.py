#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Replays the ports of a co-simulated slice through its mapped gates, and says how often each net
changes.

power.py bench NETLIST.json PORTS.vcd OUT
    writes OUT/bench.v and OUT/vectors: each cycle's inputs, and what the outputs must be.
power.py activity NETLIST.json NETS.vcd FROM_CYCLE CYCLES OUT
    writes OUT/activity.tcl for OpenSTA, and prints one JSON object.
power.py areas OUT JSON BLOCK...
    prints the areas of blocks that hw/cost.sh has mapped.
power.py report OUT JSON BLOCK...
    prints what hw/cost.sh has measured, carried to 22 nm (its assumptions are stated there).
"""
import json
import re
import sys


def netlist(path):
    """The one module of a netlist of Yosys."""
    with open(path, encoding="utf-8") as file:
        (name, module), = ((n, m) for n, m in json.load(file)["modules"].items() if "cells" in m
                           and m["cells"] and not m["attributes"].get("blackbox"))
    return name, module


def values(path, scope):
    """Changes of a VCD: yields (time, {signal: bits}), signals of one scope."""
    names, inside, changes, time = {}, False, {}, None
    with open(path, encoding="ascii") as file:
        for text in file:
            if text[0] == "#":
                if time is not None:
                    yield time, changes
                time, changes = int(text[1:]), {}
            elif text[0] == "b":
                bits, code = text[1:].split()
                if code in names:
                    changes[names[code]] = bits
            elif text[0] in "01xz":
                code = text[1:].strip()
                if code in names:
                    changes[names[code]] = text[0]
            elif "$scope" in text:
                inside = text.split()[2] == scope
            elif "$var" in text and inside:
                parts = text.split()
                names[parts[3]] = (parts[4], int(parts[2]))
    if time is not None:
        yield time, changes


def bench(json_path, vcd_path, out):
    """Writes a test bench that applies each cycle's inputs and compares the outputs."""
    name, module = netlist(json_path)
    ports = [(p, d["direction"]) for p, d in module["ports"].items() if p != "clock"]
    bit = re.compile(r"(.*)_(\d+)_$")

    def source(port, widths):
        match = bit.match(port)
        return (match[1], int(match[2])) if match and match[1] in widths else (port, 0)

    state, count, order = {}, 0, None
    with open(f"{out}/vectors", "w", encoding="ascii") as file:
        for _, changes in values(vcd_path, "TOP"):
            for (signal, width), bits in changes.items():
                state[signal] = bits.rjust(width, "0")
            if order is None:
                order = [source(p, state) for p, _ in ports]
            file.write("".join(state[s][-1 - i] for s, i in order) + "\n")
            count += 1
    width = len(ports)
    lines = [f"module bench;\n    reg clock = 0;\n    reg [0:{width - 1}] v [0:{count - 1}];",
             f"    reg [0:{width - 1}] now;\n    integer i, n, wrong = 0, unknown = 0;"]
    connect, compare = [".clock(clock)"], []
    for n, (port, direction) in enumerate(ports):
        if direction == "input":
            connect.append(f".{port}(now[{n}])")
        else:
            lines.append(f"    wire o{n};")
            connect.append(f".{port}(o{n})")
            compare.append(f"            if (o{n} === 1'bx) unknown = unknown + 1;\n"
                           f"            else if (o{n} !== now[{n}]) wrong = wrong + 1;")
    lines.append(f"    {name} dut ({', '.join(connect)});")
    lines.append(f"""    initial begin
        $readmemb("vectors", v);
        $dumpfile("nets.vcd");
        $dumpvars(1, dut);
        for (i = 0; i < {count}; i = i + 1) begin
            now = v[i];
            #4;
{chr(10).join(compare)}
            #1 clock = 1;
            #5 clock = 0;
        end
        $display("cycles %0d outputs %0d wrong %0d unknown %0d", {count},
            {len(compare)}, wrong, unknown);
        $finish;
    end
endmodule""")
    with open(f"{out}/bench.v", "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")


def activity(json_path, vcd_path, first, cycles, out):
    """Counts changes of each net from cycle `first` on; activities are changes a cycle."""
    _, module = netlist(json_path)
    changes, last = {}, {}
    for time, change in values(vcd_path, "dut"):
        counts = time >= first * 10
        for (signal, _), bit in change.items():
            if counts and {last.get(signal), bit} == {"0", "1"}:
                changes[signal] = changes.get(signal, 0) + 1
            last[signal] = bit
    of_bit = {}
    for name, net in module["netnames"].items():
        of_bit.setdefault(net["bits"][0], []).append(name)
    total = nets = 0
    with open(f"{out}/activity.tcl", "w", encoding="ascii") as file:
        file.write("set_power_activity -input -activity 0 -duty 0.5\n")
        for cell, data in module["cells"].items():
            for pin, bits in data["connections"].items():
                count = max((changes.get(n, 0) for n in of_bit.get(bits[0], [])), default=0)
                if pin in ("Y", "Q"):
                    total, nets = total + count, nets + 1
                if count and pin != "CLK":
                    file.write(f"sta::set_power_pin_activity [get_pin {cell}/{pin}] "
                               f"{count / cycles:.6f} 0.5\n")
    requests = changes.get("request_valid", 0) / 2
    print(json.dumps({"cycles": cycles, "driven_nets": nets, "changes": total,
                      "requests": round(requests)}))


def pairs(path):
    """Lines of a name and a number."""
    with open(path, encoding="ascii") as file:
        return {name: float(value) for name, value in (text.split() for text in file)}


def cell_counts(path):
    """Flip-flops and cells of a netlist."""
    cells = netlist(path)[1]["cells"].values()
    return sum(cell["type"].startswith("DFF") for cell in cells), len(cells)


SHRINK, USE = 22 / 180, 0.7


def areas_of(out, blocks):
    """Areas of mapped blocks at 22 nm, as intervals."""
    nand_um2, own_nand_um2 = 0.199, 24
    areas = []
    for block in blocks:
        with open(f"{out}/{block}.area", encoding="ascii") as file:
            um2 = float(file.read())
        flops, cells = cell_counts(f"{out}/{block}.json")
        nand2 = um2 / own_nand_um2
        areas.append({"block": block[4:], "flip_flops": flops, "cells": cells,
                      "nand2_equivalents": round(nand2),
                      "area_low_mm2": round(nand2 * nand_um2 / USE / 1e6, 5),
                      "area_high_mm2": round(um2 * SHRINK ** 2 / USE / 1e6, 5)})
    return areas


def report(out, as_json, blocks, whole):
    """Areas, and of the whole times and energies, at 22 nm, each as an interval."""
    areas = areas_of(out, blocks)
    result = {"schema": "ample.hw-cost/1", "areas": areas}
    if whole:
        result.update(measured(out, areas))
    else:
        result.update({"fo4_ns_at_180nm": None, "times": [], "energy": None, "replay": None})
    if as_json:
        print(json.dumps(result))
        return
    for row in areas:
        print("{block:12} {flip_flops:5} flip-flops {nand2_equivalents:6} NAND2 equivalents "
              "{area_low_mm2:.5f} to {area_high_mm2:.5f} mm2".format(**row))
    for row in result["times"]:
        print("{path:40} {ns_at_180nm:.2f} ns at 180 nm, {fo4} FO4, {low_ps} to {high_ps} ps"
              .format(**row))
    for key, value in (result["energy"] or {}).items():
        print(f"{key:24} {value}")
    if whole:
        print(f"replay of the mapped gates: {result['replay']}")


def measured(out, areas):
    """Times of paths, energies, and the replay."""
    paths = pairs(f"{out}/paths")
    times = []
    for path, what in (("request", "first cycle: search, other name, homes"),
                       ("decision", "second cycle: decision"),
                       ("any", "longest path of the slice"),
                       ("controller", "longest path of the front end")):
        ns = 10 - paths[path]
        fo4 = ns / paths["fo4"]
        times.append({"path": what, "ns_at_180nm": round(ns, 3), "fo4": round(fo4, 1),
                      "low_ps": round(fo4 * 8), "high_ps": round(fo4 * 16)})
    with open(f"{out}/activity.json", encoding="ascii") as file:
        seen = json.load(file)
    power, volts = pairs(f"{out}/power"), 0.8
    scale = SHRINK * (volts / 1.8) ** 2
    flops = areas[0]["flip_flops"]
    # Watts over a clock of 10 ns: joules a cycle.
    clock = [power["idle"] * 10e-9 * scale * 1e12, flops * 0.5e-15 * volts ** 2 * 1e12]
    data = [(power["activity"] - power["idle"]) * 10e-9 * scale * 1e12 * seen["cycles"],
            seen["changes"] * 0.5 * 2.5e-15 * volts ** 2 * 1e12]
    nand2 = areas[0]["nand2_equivalents"]
    energy = {"cycles": seen["cycles"], "requests": seen["requests"],
              "nets_changed_a_request": round(seen["changes"] / seen["requests"]),
              "clock_pj_a_cycle": sorted(round(x, 3) for x in clock),
              "data_pj_a_request": sorted(round(x / seen["requests"], 3) for x in data),
              "leakage_mw": [round(nand2 * 1e-6, 3), round(nand2 * 30e-6, 3)]}
    with open(f"{out}/replay", encoding="ascii") as file:
        replay = file.read().split()
    return {"fo4_ns_at_180nm": paths["fo4"], "times": times, "energy": energy,
            "replay": {"cycles": int(replay[1]), "outputs": int(replay[3]),
                       "different": int(replay[5]), "not_known": int(replay[7])}}


def main():
    """Takes the arguments apart."""
    if len(sys.argv) == 5 and sys.argv[1] == "bench":
        bench(*sys.argv[2:5])
    elif len(sys.argv) == 7 and sys.argv[1] == "activity":
        activity(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
    elif len(sys.argv) > 4 and sys.argv[1] in ("areas", "report"):
        report(sys.argv[2], sys.argv[3] == "1", sys.argv[4:], sys.argv[1] == "report")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
