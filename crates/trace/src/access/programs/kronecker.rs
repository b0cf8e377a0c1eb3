// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graph500's Kronecker graph in compressed rows.

use ample_kit::random::mix64;

/// The benchmark's Kronecker initiator.
const A: f64 = 0.57;
const B: f64 = 0.19;
const C: f64 = 0.19;
/// The benchmark's edges a vertex.
pub(super) const EDGE_FACTOR: u64 = 16;
/// Edges that are generated at a time.
const CHUNK_EDGES: u64 = 1 << 21;
/// Most threads that build a graph.
const MOST_THREADS: usize = 16;

/// Where the targets of each vertex begin, and the targets, in the order of the edges' numbers: the
/// same with any number of threads. The generator is a function of an edge's number, so the edges
/// are generated twice, a chunk at a time, and no list of them is kept.
pub(super) fn compress(vertices: u64, edges: u64, scale: u32, seed: u64) -> (Vec<u64>, Vec<u32>) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(MOST_THREADS);
    // Each thread has a range of the vertices, and looks at every edge for ends in it.
    let own = (vertices as usize).div_ceil(threads);
    let mut offsets = vec![0u64; vertices as usize + 1];
    for_chunks(edges, threads, scale, seed, |edges| {
        std::thread::scope(|scope| {
            for (range, counts) in offsets[1..].chunks_mut(own).enumerate() {
                let first = range * own;
                scope.spawn(move || {
                    for &(a, b) in edges {
                        for end in [a, b] {
                            let place = (end as usize).wrapping_sub(first);
                            if let Some(count) = counts.get_mut(place) {
                                *count += u64::from(a != b);
                            }
                        }
                    }
                });
            }
        });
    });
    for v in 0..vertices as usize {
        offsets[v + 1] += offsets[v];
    }
    let mut fill: Vec<u64> = offsets[..vertices as usize].to_vec();
    let mut targets = vec![0u32; offsets[vertices as usize] as usize];
    let offsets_of = &offsets;
    for_chunks(edges, threads, scale, seed, |edges| {
        std::thread::scope(|scope| {
            let mut rest = &mut targets[..];
            for (range, fill) in fill.chunks_mut(own).enumerate() {
                let first = range * own;
                let begin = offsets_of[first];
                let end = offsets_of[first + fill.len()];
                let (targets, after) = rest.split_at_mut((end - begin) as usize);
                rest = after;
                scope.spawn(move || {
                    for &(a, b) in edges {
                        for (from, to) in [(a, b), (b, a)] {
                            let place = (from as usize).wrapping_sub(first);
                            if a != b
                                && let Some(fill) = fill.get_mut(place)
                            {
                                targets[(*fill - begin) as usize] = to;
                                *fill += 1;
                            }
                        }
                    }
                });
            }
        });
    });
    (offsets, targets)
}

/// Generates all edges in the order of their numbers, a chunk at a time.
fn for_chunks(
    edges: u64,
    threads: usize,
    scale: u32,
    seed: u64,
    mut seen: impl FnMut(&[(u32, u32)]),
) {
    let mut chunk = vec![(0u32, 0u32); CHUNK_EDGES.min(edges) as usize];
    for start in (0..edges).step_by(CHUNK_EDGES as usize) {
        let count = CHUNK_EDGES.min(edges - start) as usize;
        let part = count.div_ceil(threads);
        std::thread::scope(|scope| {
            for (at, part_of) in chunk[..count].chunks_mut(part).enumerate() {
                let first = start + (at * part) as u64;
                scope.spawn(move || {
                    for (number, place) in (first..).zip(part_of) {
                        *place = edge(number, scale, seed);
                    }
                });
            }
        });
        seen(&chunk[..count]);
    }
}

/// A share of the 65,536 values of 16 random bits, rounded up.
const fn of_bits(share: f64) -> u32 {
    (share * 65536.0) as u32 + 1
}

/// Edge `number` of the Kronecker graph, its vertices scrambled.
fn edge(number: u64, scale: u32, seed: u64) -> (u32, u32) {
    const UP_TO: [u32; 3] = [of_bits(A), of_bits(A + B), of_bits(A + B + C)];
    let (mut a, mut b) = (0u32, 0u32);
    let mut bits = 0u64;
    for level in 0..scale {
        if level % 4 == 0 {
            bits = mix64(seed ^ number << 6 ^ u64::from(level));
        }
        let u = (bits & 0xffff) as u32;
        bits >>= 16;
        // Quarters (0, 0), (0, 1), (1, 0), (1, 1), without a branch that nobody can predict.
        let quarter: u32 = UP_TO.iter().map(|&end| u32::from(u >= end)).sum();
        a = a << 1 | quarter >> 1;
        b = b << 1 | quarter & 1;
    }
    (scramble(a, scale), scramble(b, scale))
}

/// A bijection of `0..1 << scale`, so that a vertex's number says nothing about its degree.
fn scramble(v: u32, scale: u32) -> u32 {
    let mask = (1u64 << scale) - 1;
    let half = scale / 2 + 1;
    let mut v = u64::from(v);
    for _ in 0..2 {
        v = v.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        v ^= v >> half;
    }
    v as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The graph as the benchmark describes it: one edge after another.
    #[test]
    fn the_graph_is_that_of_a_list_of_edges() {
        for (scale, seed) in [(4, 1), (10, 3), (12, 7)] {
            let vertices = 1u64 << scale;
            let edges = vertices * EDGE_FACTOR + seed;
            let (offsets, targets) = compress(vertices, edges, scale, seed);
            let mut rows = vec![Vec::new(); vertices as usize];
            for number in 0..edges {
                let (a, b) = edge(number, scale, seed);
                if a != b {
                    rows[a as usize].push(b);
                    rows[b as usize].push(a);
                }
            }
            for (v, row) in rows.iter().enumerate() {
                let own = offsets[v] as usize..offsets[v + 1] as usize;
                assert_eq!(&targets[own], row, "scale {scale}, vertex {v}");
            }
            assert_eq!(*offsets.last().unwrap(), targets.len() as u64);
        }
    }

    /// Edges fall into the quarters of the matrix as the initiator says: before the scrambling,
    /// the first bits of both ends are those of the first level.
    #[test]
    fn edges_follow_the_initiator() {
        let scale = 12;
        let mut unscramble = vec![0; 1 << scale];
        (0..1u32 << scale).for_each(|v| unscramble[scramble(v, scale) as usize] = v);
        let mut quarters = [0.0; 4];
        for number in 0..100_000 {
            let (a, b) = edge(number, scale, 5);
            let first = |v: u32| unscramble[v as usize] >> (scale - 1);
            quarters[(first(a) * 2 + first(b)) as usize] += 1e-5;
        }
        for (share, wanted) in quarters.iter().zip([A, B, C, 1.0 - A - B - C]) {
            assert!((share - wanted).abs() < 0.005, "{quarters:?}");
        }
    }

    #[test]
    fn vertices_are_scrambled_one_to_one() {
        let mut seen = vec![false; 1 << 10];
        (0..1 << 10).for_each(|v| seen[scramble(v, 10) as usize] = true);
        assert!(seen.iter().all(|&s| s));
    }
}
