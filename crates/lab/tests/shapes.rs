// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments on small programs: shapes that must hold whatever the size, and errors.

use ample_lab::experiment::Experiment;
use ample_lab::setup::{Length, PageMix};
use ample_lab::shipped_parameters;
use ample_lab::translation::perforated::Fragmentation;
use ample_lab::translation::{Recording, directseg, perforated, segments, speedup};
use ample_machine::MachineConfig;

const SHORT: Length = Length {
    warm_up_accesses: 60_000,
    accesses: 120_000,
};

#[test]
fn segments_take_all_misses_inside_and_large_pages_most() {
    let mut params = directseg::DirectSegParams {
        length: SHORT,
        seeds: vec![3, 4],
        ..shipped_parameters("directseg", true).unwrap()
    };
    params
        .rows
        .retain(|row| ["gups", "tpcc"].contains(&row.program.as_str()));
    let tables = directseg::DirectSeg::run(&params, &|_| {}).unwrap();
    let [tpcc, gups] = tables.rows.as_slice() else {
        panic!("two rows")
    };
    assert!(
        gups.dtlb_percent[0] > 20.0 && gups.segment_percent < 0.01,
        "{gups:?}"
    );
    assert!(gups.dtlb_percent[1] < gups.dtlb_percent[0]);
    assert!(gups.inside_percent > 99.9, "{gups:?}");
    assert!(gups.seeds == 2 && gups.dtlb_percent_min[0] <= gups.dtlb_percent_max[0]);
    // Stacks, static data and the log stay outside the segment.
    assert!(
        tpcc.inside_percent < 99.0 && tpcc.walks_per_kilo_instruction[3] > 0.0,
        "{tpcc:?}"
    );
    assert!(tpcc.segment_percent < tpcc.dtlb_percent[0]);
    assert_eq!(
        directseg::DirectSeg::run(&params, &|_| {}).unwrap(),
        tables,
        "not deterministic"
    );
}

#[test]
fn segments_serve_the_kernel_and_virtual_machines() {
    let mut params = segments::SegmentParams {
        length: SHORT,
        seeds: vec![3],
        ..shipped_parameters("segments", true).unwrap()
    };
    params.kernel.work = 2.0;
    params.guests.programs = vec!["gups".into()];
    params.guests.gups_bytes = 256 << 20;
    let result = segments::KernelSegments::run(&params, &|_| {}).unwrap();
    let [small, large, _, segment, _, both] = result.kernel.as_slice() else {
        panic!("six rows")
    };
    assert!(small.kernel_percent > large.kernel_percent, "{small:?}");
    assert!(small.direct_share.unwrap() > 0.95, "{small:?}");
    // What the kernel's segment leaves is vmalloc memory.
    assert!(
        segment.kernel_percent < 0.1 * small.kernel_percent,
        "{segment:?}"
    );
    assert!(both.user_percent < 0.1 * small.user_percent, "{both:?}");
    let [native, paged, _, _, first, second, _, third] = result.guests.as_slice() else {
        panic!("eight rows")
    };
    assert!(paged.references_per_walk > 2.0 * native.references_per_walk);
    assert!(paged.longest_walk_references <= 24, "{paged:?}");
    // One dimension is left with a segment on either side, none with both.
    assert!(first.longest_walk_references <= 4, "{first:?}");
    assert!(second.longest_walk_references <= 4, "{second:?}");
    assert_eq!(third.walks_per_kilo_instruction, 0.0, "{third:?}");
    assert!(third.speedup > first.speedup && first.speedup > 1.0);
    assert_eq!(
        segments::KernelSegments::run(&params, &|_| {}).unwrap(),
        result,
        "not deterministic"
    );
}

#[test]
fn perforated_pages_keep_their_shape() {
    let params = perforated::PerforatedParams {
        programs: vec!["gups".into()],
        gups_bytes: 256 << 20,
        fragmented_shares: vec![1.0],
        holes_per_region: vec![8],
        virtualised: vec![false, true],
        variants: vec![],
        length: SHORT,
        seeds: vec![5, 6],
        ..shipped_parameters("perforated", true).unwrap()
    };
    let sweep = perforated::Perforated::run(&params, &|_| {}).unwrap();
    assert_eq!(sweep.points.len(), 8);
    for point in &sweep.points {
        assert!(point.ipc_ideal >= point.ipc_small * 0.999, "{point:?}");
        assert!(point.over_conventional.mean > 0.97, "{point:?}");
        assert!(point.of_ideal.mean < 1.02, "{point:?}");
        assert_eq!(point.seeds, 2);
        assert!(point.of_ideal.ci95.is_some(), "{point:?}");
        assert_eq!(point.rmm_of_ideal.is_none(), point.virtualised, "{point:?}");
        if let Some((colt, rmm)) = point.colt_of_ideal.zip(point.rmm_of_ideal) {
            // They take what conventional paging has, and never do worse with it.
            let least = colt.mean.min(rmm.mean);
            assert!(least > 0.98 * point.small_of_ideal.mean, "{point:?}");
            assert!(colt.mean.max(rmm.mean) < 1.02, "{point:?}");
        }
        if point.clustered {
            assert!(point.of_ideal.mean > 0.9, "{point:?}");
        }
        if !point.used {
            assert!(point.ipc_perforated > 0.0);
        }
    }
    let refused = |seeds: &[u64]| {
        let seeds = seeds.to_vec();
        let params = perforated::PerforatedParams {
            seeds,
            ..params.clone()
        };
        perforated::Perforated::run(&params, &|_| {}).unwrap_err()
    };
    assert!(refused(&[]).to_string().contains("no seed"));
    assert!(refused(&[3, 4, 3]).to_string().contains("twice"));
}

/// Memory with a pinned page in every 2 MB block: conventional pages find nothing, perforated
/// pages nearly everything.
#[test]
fn one_pinned_page_a_block_hardly_hurts_perforated_pages() {
    use ample_translate::FrameUse;
    let recording = Recording {
        scale: "tiny",
        gups_bytes: 512 << 20,
        length: SHORT,
        seed: 5,
    };
    let mut frames = vec![FrameUse::Movable; 300 * 512];
    (0..300).for_each(|block| frames[block * 512 + block * 5 % 512] = FrameUse::Unmovable);
    let holes = Fragmentation::of_filled(&frames, 1.0, 256, 5).unwrap();
    assert_eq!((holes.blocks.len(), holes.holed_share()), (256, 1.0));
    let machine = MachineConfig::preset("perforated-skylake").unwrap();
    let mut gups = recording.of("gups").unwrap();
    let mut point = |known: &mut perforated::Baselines| {
        perforated::point(&machine, &SHORT, &mut gups, &holes, false, known).unwrap()
    };
    // What was run once for all states is what running it again gives.
    let (mut known, mut other) = Default::default();
    let first = point(&mut known);
    assert_eq!(point(&mut known), first);
    assert_eq!(point(&mut other), first);
    let point = first;
    assert_eq!(point.holes_per_region, 1.0);
    assert!(point.of_ideal.mean > 0.95, "{point:?}");
    assert!(point.over_conventional.mean > 1.1, "{point:?}");
    assert!(Fragmentation::of_filled(&frames[..512 * 8], 1.0, 256, 5).is_err());
    // The soundest blocks are filled first.
    frames[..512 * 150].fill(FrameUse::Free);
    let half = Fragmentation::of_filled(&frames, 0.5, 100, 5).unwrap();
    assert_eq!(half.holed_share(), 0.0);
}

#[test]
fn bad_mixes_are_refused_and_presets_are_sound() {
    assert!(
        PageMix {
            share_2m: 0.7,
            share_1g: 0.7,
            code_2m: false
        }
        .check()
        .is_err()
    );
}

#[test]
fn the_shipped_speed_table_is_there() {
    let shipped = speedup::shipped();
    for program in ["web", "cache"] {
        let table = shipped.table(program).expect("shipped");
        let all = PageMix {
            share_2m: 1.0,
            share_1g: 0.0,
            code_2m: true,
        };
        assert!(table.speedup(&all).unwrap() > 1.05, "{program}");
    }
}
