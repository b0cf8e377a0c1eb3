// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared C policy against Algorithm 1 of the paper restated in exact rational arithmetic.

use ample_mm::policy_ffi::{
    ResizeParams, ResizeState, backoff_ms, initial_pages, must, review_pages, step_pages,
    target_pages,
};
use proptest::prelude::*;

/// A non-negative fraction; numerators and denominators of this test fit in 128 bits.
#[derive(Clone, Copy, Debug)]
struct Ratio(u128, u128);

impl Ratio {
    fn floor(self) -> u128 {
        self.0 / self.1
    }
}

/// F of Algorithm 1, lines 4 and 8: `a / ta · ca + tb / max(b, 1) · cb`. The kernel adds whole
/// thousandths, so each term is rounded down to one, and F is at most 1.
fn factor_milli(a: u32, ta: u32, ca: u32, tb: u32, b: u32, cb: u32) -> u128 {
    let cap = |v: u32| u128::from(v.min(10_000));
    let first = Ratio(cap(a) * u128::from(ca), u128::from(ta.max(1))).floor();
    let second = Ratio(cap(tb) * u128::from(cb), u128::from(b.max(1))).floor();
    (first + second).min(1000)
}

/// Algorithm 1 with the bounds that the header documents, in whole blocks.
fn restated(p: &ResizeParams, s: &ResizeState) -> u128 {
    let n = |v: u64| u128::from(v);
    let block = n(s.block_pages);
    let up = |v: u128| v.div_ceil(block) * block;
    let down = |v: u128| v / block * block;
    let now = n(s.unmov_pages);
    let low = up(n(s.min_pages));
    let high = down(n(s.max_pages).min(n(s.node_pages)));
    if low > high {
        return now;
    }
    let step = down(n(s.node_pages) / 8).max(block);
    let starved = s.unmov_free_pages < s.unmov_low_wmark_pages;
    let movable_starved = s.mov_free_pages < s.mov_low_wmark_pages;
    let (u, m) = (s.pressure_unmov_bp, s.pressure_mov_bp);
    let (tu, tm) = (p.threshold_unmov_bp, p.threshold_mov_bp);
    if starved || u >= tu && m < tm && !movable_starved {
        let f = factor_milli(u, tu, p.c_ue_milli, tm, m, p.c_me_milli);
        let mut grow = Ratio(now * f, 1000).floor();
        if starved {
            grow = grow.max(2 * n(s.unmov_low_wmark_pages) - n(s.unmov_free_pages));
        }
        let grow = up(grow.max(1)).min(step);
        (down(now) + grow).clamp(low, high).max(now.min(high))
    } else {
        let f = factor_milli(m, tm, p.c_ms_milli, tu, u, p.c_us_milli);
        let cut = down(Ratio(now * f, 1000).floor()).min(step);
        let used = now.saturating_sub(n(s.unmov_free_pages));
        let floor = up(used + 2 * n(s.unmov_low_wmark_pages)).min(down(now));
        down(now).saturating_sub(cut).max(floor).clamp(low, high)
    }
}

/// With so much free a region does not grow: half as much again as its low mark.
fn enough(s: &ResizeState) -> u128 {
    let low = u128::from(s.unmov_low_wmark_pages);
    low + low / 2
}

/// A review: what Algorithm 1 wants, but no growth beyond enough, and a quarter of what is free
/// beyond that goes back, or a block.
fn restated_review(p: &ResizeParams, s: &ResizeState) -> u128 {
    let (block, free) = (u128::from(s.block_pages), u128::from(s.unmov_free_pages));
    let now = u128::from(s.unmov_pages) / block * block;
    let lacks = enough(s).saturating_sub(free).div_ceil(block) * block;
    let spare = free.saturating_sub(enough(s));
    let mut size = restated(p, s).min(now + lacks);
    if spare > 0 {
        let give = (spare / 4).max(spare.min(block)) / block * block;
        size = size.min(now.saturating_sub(give));
    }
    size.max(u128::from(s.min_pages).div_ceil(block) * block)
}

/// A step of a growth: 16 MB, unless it is over or would starve the movable side for nothing.
fn restated_step(s: &ResizeState, target: u64, wanted: u64) -> u128 {
    let must = s.unmov_free_pages < s.unmov_low_wmark_pages / 4;
    let over = u128::from(s.unmov_free_pages) >= u128::from(wanted) + enough(s);
    if over || !must && s.mov_free_pages < s.mov_low_wmark_pages {
        return 0;
    }
    u128::from(
        target
            .saturating_sub(s.unmov_pages)
            .min(4096.max(s.block_pages)),
    )
}

fn params() -> impl Strategy<Value = ResizeParams> {
    let weight = 0u32..4000;
    let threshold = 1u32..10_001;
    (
        threshold.clone(),
        threshold,
        weight.clone(),
        weight.clone(),
        weight.clone(),
        weight,
    )
        .prop_map(|(tu, tm, ue, me, us, ms)| ResizeParams {
            threshold_unmov_bp: tu,
            threshold_mov_bp: tm,
            c_ue_milli: ue,
            c_me_milli: me,
            c_us_milli: us,
            c_ms_milli: ms,
        })
}

fn state() -> impl Strategy<Value = ResizeState> {
    let pages = 1u64..1 << 30;
    (
        (pages.clone(), 0.0f64..1.0, 0.0f64..1.2, pages.clone()),
        (0u64..1 << 20, 0u64..1 << 20, 0.0f64..0.6, 0.3f64..1.1),
        (9u32..13, 0u32..12_000, 0u32..12_000),
    )
        .prop_map(
            |((node, unmov, free, mov_free), (lu, lm, min, max), (block, u, m))| {
                let part = |share: f64| (node as f64 * share) as u64;
                let unmov_pages = part(unmov) >> block << block;
                ResizeState {
                    node_pages: node,
                    unmov_pages,
                    unmov_free_pages: (unmov_pages as f64 * free) as u64,
                    mov_free_pages: mov_free,
                    unmov_low_wmark_pages: lu,
                    mov_low_wmark_pages: lm,
                    min_pages: part(min),
                    max_pages: part(max),
                    block_pages: 1 << block,
                    pressure_unmov_bp: u,
                    pressure_mov_bp: m,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn the_c_policy_is_algorithm_1(p in params(), s in state()) {
        prop_assert_eq!(u128::from(target_pages(&p, &s)), restated(&p, &s), "{:?} {:?}", p, s);
    }

    /// What kernel and model ask alike: decide, take a step, look again.
    #[test]
    fn a_resize_takes_the_same_steps(p in params(), mut s in state(), taken in 0.0f64..1.2) {
        for _ in 0..8 {
            let target = review_pages(&p, &s);
            prop_assert_eq!(u128::from(target), restated_review(&p, &s), "{:?} {:?}", p, s);
            let wanted = target.saturating_sub(s.unmov_pages);
            let step = step_pages(&s, target, wanted, must(&s, false));
            prop_assert_eq!(u128::from(step), restated_step(&s, target, wanted), "{:?}", s);
            if target < s.unmov_pages {
                s.unmov_free_pages = s.unmov_free_pages.saturating_sub(s.unmov_pages - target);
                s.unmov_pages = target;
            } else {
                s.unmov_pages += step;
                s.unmov_free_pages += (step as f64 * (1.0 - taken)).max(0.0) as u64;
                s.mov_free_pages = s.mov_free_pages.saturating_sub(step);
            }
        }
    }

    #[test]
    fn the_target_is_whole_blocks_within_bounds(p in params(), s in state()) {
        let target = target_pages(&p, &s);
        let low = s.min_pages.div_ceil(s.block_pages) * s.block_pages;
        let high = s.max_pages.min(s.node_pages) / s.block_pages * s.block_pages;
        if low <= high {
            prop_assert_eq!(target % s.block_pages, 0);
            prop_assert!((low..=high).contains(&target));
        } else {
            prop_assert_eq!(target, s.unmov_pages);
        }
    }

    #[test]
    fn the_initial_region_covers_boot(node in 1u64 << 12..1 << 34, boot in 0u64..1 << 30) {
        let pages = initial_pages(node, boot, 512);
        prop_assert_eq!(pages % 512, 0);
        let high = node / 512 * 512;
        let wanted = (node / 16).max(boot + boot / 8).next_multiple_of(512);
        prop_assert_eq!(pages, wanted.min(high));
    }

    #[test]
    fn back_off_doubles_to_its_cap(
        failures in 0u32..100,
        base in 1u32..1000,
        cap in 1000u32..100_000,
    ) {
        let expected = match failures {
            0 => 0,
            n => (u128::from(base) << (n - 1).min(64)).min(u128::from(cap)),
        };
        prop_assert_eq!(u128::from(backoff_ms(failures, base, cap)), expected);
    }
}

/// The paper's 64 GB server: 4 GB.
#[test]
fn a_64_gb_server_starts_with_4_gb() {
    assert_eq!(initial_pages(64 << 18, 1 << 17, 512), 4 << 18);
}
