# SPDX-License-Identifier: MIT OR Apache-2.0
# Power of a mapped slice under the activities of a replay, for OpenSTA; a clock of 10 ns.
read_liberty $env(LIBERTY)
read_verilog $env(NETLIST)
link_design ctg_slice
create_clock -name clock -period 10 [get_ports clock]
set_load 0.05 [all_outputs]
# The command behind set_power_activity -pins, which in OpenSTA 2.0.17 is broken.
source $env(ACTIVITY)
report_power -digits 8
