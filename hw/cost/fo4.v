// SPDX-License-Identifier: MIT OR Apache-2.0
// Inverters that drive four inverters each: the delay of one in the middle is the FO4 delay of the
// library, in which paths of different nodes are compared.
module fo4 (
    input        a,
    output [3:0] z
);
    wire [3:0] b, c, d, e;
    INVX1 b0 (.A(a), .Y(b[0]));
    INVX1 c0 (.A(b[0]), .Y(c[0]));
    INVX1 c1 (.A(b[0]), .Y(c[1]));
    INVX1 c2 (.A(b[0]), .Y(c[2]));
    INVX1 c3 (.A(b[0]), .Y(c[3]));
    INVX1 d0 (.A(c[0]), .Y(d[0]));
    INVX1 d1 (.A(c[0]), .Y(d[1]));
    INVX1 d2 (.A(c[0]), .Y(d[2]));
    INVX1 d3 (.A(c[0]), .Y(d[3]));
    INVX1 e0 (.A(d[0]), .Y(e[0]));
    INVX1 e1 (.A(d[0]), .Y(e[1]));
    INVX1 e2 (.A(d[0]), .Y(e[2]));
    INVX1 e3 (.A(d[0]), .Y(e[3]));
    INVX1 z0 (.A(e[0]), .Y(z[0]));
    INVX1 z1 (.A(e[0]), .Y(z[1]));
    INVX1 z2 (.A(e[0]), .Y(z[2]));
    INVX1 z3 (.A(e[0]), .Y(z[3]));
endmodule
