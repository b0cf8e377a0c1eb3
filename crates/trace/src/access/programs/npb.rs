// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two kernels after the NAS Parallel Benchmarks: CG (conjugate gradients on a random sparse
//! matrix) and BT-like line solves in three directions.

use super::fit::largest;
use super::micro::{IMAGE_STACK_BYTES, image_of};
use crate::{Access, Program, Recorder, Region, RegionLayout};
use ample_kit::random::mix64;

/// CG. The matrix is symmetric and positive definite, its pattern random, and a function of row
/// and position: the gigabytes of `a` and `colidx` (8.7 in class D) take no host memory, while the
/// vectors are real and the iteration converges.
///
/// Two hardware threads work on the two halves of the rows, interleaved: the machine of Direct
/// Segments runs two threads on each core, and they share its TLBs.
pub struct Cg {
    layout: RegionLayout,
    log_rows: u32,
    per_row: u64,
    base: CgBases,
    p: Vec<f64>,
    q: Vec<f64>,
    r: Vec<f64>,
    z: Vec<f64>,
    /// Row within its half that both threads have reached in the current product.
    row: u64,
    rho: f64,
    /// Squared residual after each finished iteration.
    pub residuals: Vec<f64>,
}

#[derive(Clone, Copy)]
struct CgBases {
    a: u64,
    colidx: u64,
    rowstr: u64,
    p: u64,
    q: u64,
    r: u64,
    z: u64,
}

const CG_CODE_BYTES: u64 = 128 << 10;
const CG_DATA_BYTES: u64 = 64 << 10;
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// `SPREAD` times this is 1 modulo 2^64.
const UNSPREAD: u64 = 0xf1de_83e1_9937_733d;

impl Cg {
    /// A matrix of about `bytes` bytes: the number of rows is that power of two with which the
    /// entries a row are nearest to those of class D.
    pub(super) fn of_bytes(bytes: u64) -> Self {
        const ENTRY_BYTES: u64 = 12;
        const ROW_BYTES: u64 = 36;
        const CLASS_D: u64 = 346;
        let data = bytes.saturating_sub(CG_CODE_BYTES + CG_DATA_BYTES + IMAGE_STACK_BYTES);
        let rows = data as f64 / (CLASS_D * ENTRY_BYTES + ROW_BYTES) as f64;
        let log_rows = rows.log2().round().clamp(6.0, 31.0) as u32;
        let per_row = (data >> log_rows).saturating_sub(ROW_BYTES) / ENTRY_BYTES;
        Cg::new(log_rows, per_row.max(1))
    }

    /// `1 << log_rows` rows of `per_row` entries; 21 and 346 have the entries of class D.
    pub fn new(log_rows: u32, per_row: u64) -> Self {
        let rows = 1u64 << log_rows;
        let entries = rows * per_row;
        let mut layout = RegionLayout::new();
        let base = CgBases {
            colidx: layout.anonymous("colidx", entries * 4),
            rowstr: layout.anonymous("rowstr", rows * 4),
            a: layout.anonymous("a", entries * 8),
            p: layout.anonymous("p", rows * 8),
            q: layout.anonymous("q", rows * 8),
            r: layout.anonymous("r", rows * 8),
            z: layout.anonymous("z", rows * 8),
        };
        image_of(&mut layout, CG_CODE_BYTES, CG_DATA_BYTES);
        let n = rows as usize;
        Cg {
            layout,
            log_rows,
            per_row,
            base,
            p: vec![1.0; n],
            q: vec![0.0; n],
            r: vec![1.0; n],
            z: vec![0.0; n],
            row: 0,
            rho: rows as f64,
            residuals: Vec::new(),
        }
    }

    /// Column of entry `k` of row `i`. For each `k` it is an involution, so that the pattern is
    /// symmetric: rows are permuted, paired with their neighbour, and permuted back.
    #[inline]
    fn column(&self, i: u64, k: u64) -> u64 {
        if k == 0 {
            return i;
        }
        let bits = self.log_rows;
        let mask = (1u64 << bits) - 1;
        let half = bits.div_ceil(2);
        let key = mix64(k) & mask;
        let mut x = (i ^ key).wrapping_mul(SPREAD) & mask;
        x ^= x >> half;
        x = x.wrapping_mul(SPREAD) & mask;
        x ^= x >> half;
        x ^= 1;
        x ^= x >> half;
        x = x.wrapping_mul(UNSPREAD) & mask;
        x ^= x >> half;
        (x.wrapping_mul(UNSPREAD) & mask) ^ key
    }

    /// Value of the entry at (i, j): symmetric, and dominated by the diagonal.
    #[inline]
    fn value(&self, i: u64, j: u64) -> f64 {
        if i == j {
            return 1.5;
        }
        let hash = mix64(i.min(j) << 32 | i.max(j));
        (hash >> 11) as f64 / (1u64 << 53) as f64 / self.per_row as f64
    }

    /// `q = A p` for one row of each half, entry by entry in turns.
    fn two_rows(&mut self, recorder: &mut Recorder<'_>) {
        let half = 1u64 << (self.log_rows - 1);
        let rows = [self.row, self.row + half];
        let base = self.base;
        let mut sums = [0.0; 2];
        for &row in &rows {
            recorder.push(Access::load(base.rowstr + row * 4, 2));
        }
        for k in 0..self.per_row {
            for (thread, &row) in rows.iter().enumerate() {
                let entry = row * self.per_row + k;
                let column = self.column(row, k);
                let on = |access: Access| Access {
                    thread: thread as u8,
                    ..access
                };
                recorder.push(on(Access::load(base.colidx + entry * 4, 1)));
                recorder.push(on(Access::load(base.a + entry * 8, 0)));
                recorder.push(on(Access::load(base.p + column * 8, 2).after(2)));
                sums[thread] += self.value(row, column) * self.p[column as usize];
            }
        }
        for (&row, sum) in rows.iter().zip(sums) {
            recorder.push(Access::store(base.q + row * 8, 1));
            self.q[row as usize] = sum;
        }
        self.row += 1;
    }

    /// The vector part of an iteration: two dot products and three updates.
    fn vectors(&mut self, recorder: &mut Recorder<'_>) {
        let n = self.p.len();
        let base = self.base;
        let d: f64 = (0..n).map(|i| self.p[i] * self.q[i]).sum();
        let alpha = self.rho / d;
        let mut rho = 0.0;
        for i in 0..n {
            let at = i as u64 * 8;
            recorder.push(Access::load(base.p + at, 1));
            recorder.push(Access::load(base.q + at, 1));
            recorder.push(Access::load(base.z + at, 1));
            recorder.push(Access::store(base.z + at, 1));
            recorder.push(Access::load(base.r + at, 1));
            recorder.push(Access::store(base.r + at, 2));
            self.z[i] += alpha * self.p[i];
            self.r[i] -= alpha * self.q[i];
            rho += self.r[i] * self.r[i];
        }
        let beta = rho / self.rho;
        for i in 0..n {
            let at = i as u64 * 8;
            recorder.push(Access::load(base.r + at, 1));
            recorder.push(Access::load(base.p + at, 1));
            recorder.push(Access::store(base.p + at, 1));
            self.p[i] = self.r[i] + beta * self.p[i];
        }
        self.rho = rho;
        self.residuals.push(rho);
        self.row = 0;
    }
}

impl Program for Cg {
    fn name(&self) -> &str {
        "cg"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    fn step(&mut self, recorder: &mut Recorder<'_>) {
        if self.row == 1 << (self.log_rows - 1) {
            self.vectors(recorder);
        } else {
            self.two_rows(recorder);
        }
    }
}

/// BT-like: on an n³ grid with five values a cell, block-tridiagonal systems are solved along all
/// lines of x, of y and of z. Each line takes the four passes of the original, one after another
/// over the whole line: Jacobians from the values of the cells, block rows from the Jacobians of
/// neighbours, forward elimination, back substitution. Lines of y and z stride through memory by
/// n and n² cells; neighbouring lines follow each other along x (along y for lines of x). The
/// directions take turns a few lines at a time (the original does a whole sweep each), so that a
/// short run is a fair sample of a long one.
pub struct Bt {
    layout: RegionLayout,
    n: u64,
    rhs: Vec<f64>,
    factors: Vec<f64>,
    base: BtBases,
    direction: usize,
    /// Next line of each direction.
    lines: [u64; 3],
}

#[derive(Clone, Copy)]
struct BtBases {
    rhs: u64,
    u: u64,
    qs: u64,
    square: u64,
    fjac: u64,
    njac: u64,
    lhs: u64,
}

/// Values a cell.
const COMPONENTS: u64 = 5;
/// Entries of a 5 × 5 block.
const BLOCK: u64 = COMPONENTS * COMPONENTS;
/// Bytes of a cell in all arrays of the grid, and of a cell of a line in its own arrays.
const CELL_BYTES: u64 = (3 * COMPONENTS + 6) * 8;
const STEP_BYTES: u64 = 5 * BLOCK * 8;
/// Bytes of the code, and of the static data.
const BT_IMAGE_BYTES: u64 = 256 << 10;
/// Lines of one direction before the next has its turn.
const TURN: u64 = 16;

impl Bt {
    /// The grid whose memory is nearest to `bytes` bytes.
    pub(super) fn of_bytes(bytes: u64) -> Self {
        let data = bytes.saturating_sub(2 * BT_IMAGE_BYTES + IMAGE_STACK_BYTES);
        let taken = |n: u64| n * n * n * CELL_BYTES + n * STEP_BYTES;
        let below = largest(1 << 12, |n| taken(n) <= data).max(3);
        let above = taken(below + 1).abs_diff(data) < taken(below).abs_diff(data);
        Bt::new(below + u64::from(above))
    }

    /// An n³ grid; class D is 408, class B 102.
    pub fn new(n: u64) -> Self {
        let mut layout = RegionLayout::new();
        let cells = n * n * n;
        let field = cells * COMPONENTS * 8;
        let base = BtBases {
            u: layout.anonymous("u", field),
            qs: layout.anonymous("qs", cells * 8),
            square: layout.anonymous("square", cells * 8),
            rhs: layout.anonymous("rhs", field),
            fjac: layout.anonymous("fjac", n * BLOCK * 8),
            njac: layout.anonymous("njac", n * BLOCK * 8),
            lhs: layout.anonymous("lhs", n * 3 * BLOCK * 8),
        };
        layout.anonymous("forcing", field);
        layout.anonymous("us vs ws rho_i", cells * 4 * 8);
        image_of(&mut layout, BT_IMAGE_BYTES, BT_IMAGE_BYTES);
        let rhs = (0..cells * COMPONENTS)
            .map(|i| (mix64(i) >> 40) as f64 * 1e-7)
            .collect();
        Bt {
            layout,
            n,
            rhs,
            factors: vec![0.0; n as usize],
            base,
            direction: 0,
            lines: [0; 3],
        }
    }

    /// First cell and stride of the current direction's next line.
    fn line(&self) -> (u64, u64) {
        let n = self.n;
        let line = self.lines[self.direction];
        let (a, b) = (line / n, line % n);
        match self.direction {
            0 => ((a * n + b) * n, 1),
            1 => (a * n * n + b, n),
            _ => (a * n + b, n * n),
        }
    }

    /// A block of the line's own work arrays, read or written line by line of the cache, with
    /// `gap` instructions of arithmetic before each.
    fn block(recorder: &mut Recorder<'_>, va: u64, entries: u64, gap: u16, write: bool) {
        for entry in (0..entries).step_by(8) {
            let va = va + entry * 8;
            recorder.push(match write {
                true => Access::store(va, gap),
                false => Access::load(va, gap),
            });
        }
    }

    /// Passes 1 and 2: what the coefficients of the line's systems are made of.
    fn coefficients(&self, recorder: &mut Recorder<'_>, start: u64, stride: u64) {
        let base = self.base;
        for step in 0..self.n {
            let cell = start + step * stride;
            for c in 0..COMPONENTS {
                recorder.push(Access::load(base.u + (cell * COMPONENTS + c) * 8, 2));
            }
            recorder.push(Access::load(base.qs + cell * 8, 6));
            recorder.push(Access::load(base.square + cell * 8, 6));
            Self::block(recorder, base.fjac + step * BLOCK * 8, BLOCK, 25, true);
            Self::block(recorder, base.njac + step * BLOCK * 8, BLOCK, 15, true);
        }
        for step in 1..self.n - 1 {
            for neighbour in [step - 1, step, step + 1] {
                Self::block(recorder, base.fjac + neighbour * BLOCK * 8, BLOCK, 1, false);
                Self::block(recorder, base.njac + neighbour * BLOCK * 8, BLOCK, 1, false);
            }
            Self::block(
                recorder,
                base.lhs + step * 3 * BLOCK * 8,
                3 * BLOCK,
                24,
                true,
            );
        }
    }

    fn next_line(&mut self) {
        let line = &mut self.lines[self.direction];
        *line += 1;
        if line.is_multiple_of(TURN) || *line == self.n * self.n {
            *line %= self.n * self.n;
            self.direction = (self.direction + 1) % 3;
        }
    }
}

impl Program for Bt {
    fn name(&self) -> &str {
        "bt"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    /// Solves one line: (-1, 4, -1) systems stand for the blocks, for all components at once.
    fn step(&mut self, recorder: &mut Recorder<'_>) {
        let (start, stride) = self.line();
        self.coefficients(recorder, start, stride);
        let BtBases { rhs, lhs, .. } = self.base;
        for step in 0..self.n {
            let cell = start + step * stride;
            // Products with the block before, then the inverse of the diagonal block.
            Self::block(recorder, lhs + step * 3 * BLOCK * 8, 3 * BLOCK, 60, false);
            Self::block(recorder, lhs + step * 3 * BLOCK * 8, 2 * BLOCK, 10, true);
            let before = match step {
                0 => 0.0,
                _ => self.factors[step as usize - 1],
            };
            let factor = 1.0 / (4.0 - before);
            self.factors[step as usize] = factor;
            for c in 0..COMPONENTS {
                let at = cell * COMPONENTS + c;
                recorder.push(Access::load(rhs + at * 8, 8));
                recorder.push(Access::store(rhs + at * 8, 8));
                let left = match step {
                    0 => 0.0,
                    _ => self.rhs[(at - stride * COMPONENTS) as usize],
                };
                self.rhs[at as usize] = (self.rhs[at as usize] + left) * factor;
            }
        }
        for step in (0..self.n.saturating_sub(1)).rev() {
            let cell = start + step * stride;
            Self::block(recorder, lhs + (step * 3 + 2) * BLOCK * 8, BLOCK, 8, false);
            for c in 0..COMPONENTS {
                let at = cell * COMPONENTS + c;
                recorder.push(Access::load(rhs + at * 8, 4));
                recorder.push(Access::store(rhs + at * 8, 4));
                let right = self.rhs[(at + stride * COMPONENTS) as usize];
                self.rhs[at as usize] += right * self.factors[step as usize];
            }
        }
        self.next_line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_symmetric_and_cg_converges() {
        let mut cg = Cg::new(10, 12);
        assert_eq!(SPREAD.wrapping_mul(UNSPREAD), 1);
        for i in 0..1024 {
            for k in 1..12 {
                let j = cg.column(i, k);
                assert!(j != i && j < 1024 && cg.column(j, k) == i);
            }
        }
        let mut drop_all = |_: &[Access]| true;
        let mut recorder = Recorder::new(&mut drop_all, 1_000_000);
        cg.run(&mut recorder);
        let last = *cg.residuals.last().unwrap();
        assert!(cg.residuals.len() > 5 && last < 1e-6, "{:?}", cg.residuals);
    }

    #[test]
    fn bt_solves_its_lines() {
        let mut bt = Bt::new(12);
        let before = bt.rhs.clone();
        let mut drop_all = |_: &[Access]| true;
        let mut recorder = Recorder::new(&mut drop_all, u64::MAX);
        bt.step(&mut recorder);
        // The first x line: (-1, 4, -1) x = before.
        for cell in 0..12usize {
            let x = |c: usize| bt.rhs[c * 5];
            let left = if cell > 0 { x(cell - 1) } else { 0.0 };
            let right = if cell < 11 { x(cell + 1) } else { 0.0 };
            let error = 4.0 * x(cell) - left - right - before[cell * 5];
            assert!(error.abs() < 1e-9, "cell {cell}: {error}");
        }
    }
}
