// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of the metrics per page, beside the floor: reading one byte a page.

use ample_pfn::{Coverage, Layout, MetricsBuilder, PageClass, Pfn, SizeList};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const PAGES: usize = 6 << 20; // a 24 GB host

fn fragmented() -> Vec<PageClass> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut pages = vec![PageClass::Anon; PAGES];
    for block in pages.chunks_mut(512) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        match state >> 61 {
            0 => block.fill(PageClass::Free),
            1 => block
                .iter_mut()
                .step_by(5)
                .for_each(|page| *page = PageClass::Slab),
            2 => block
                .iter_mut()
                .step_by(3)
                .for_each(|page| *page = PageClass::File),
            _ => {}
        }
    }
    pages
}

fn bench(criterion: &mut Criterion) {
    let pages = fragmented();
    let layout = Layout::single(Pfn(0), PAGES as u64);
    let mut group = criterion.benchmark_group("metrics_24gb");
    group
        .throughput(Throughput::Elements(PAGES as u64))
        .sample_size(20);
    group.bench_function("floor_sum_of_bytes", |b| {
        b.iter(|| pages.iter().map(|&class| class as u64).sum::<u64>());
    });
    group.bench_function("tally", |b| {
        b.iter(|| {
            let mut builder = MetricsBuilder::new(&layout, &SizeList::standard());
            builder.push(Pfn(0), &pages);
            builder
        });
    });
    let mut builder = MetricsBuilder::new(&layout, &SizeList::standard());
    builder.push(Pfn(0), &pages);
    group.bench_function("finish", |b| b.iter(|| builder.finish(&Coverage::exact())));
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
