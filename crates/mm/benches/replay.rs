// SPDX-License-Identifier: MIT OR Apache-2.0
//! Speed of a replay: reading the text alone, and driving one server with it.

use ample_mm::replay::{KernelReplay, ReplayOptions};
use ample_mm::{Config, PolicyKind};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::Path;

/// The recording of a real kernel that the tests use, uncompressed and repeated: what is live at
/// its end is freed by the repairs of the next round.
fn recording(rounds: usize) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stock-2g-start.trace.zst");
    let file = std::fs::File::open(path).expect("the recording");
    let text = zstd::decode_all(file).expect("a whole recording");
    text.repeat(rounds)
}

fn replay(c: &mut Criterion) {
    let options = ReplayOptions {
        samples: 2,
        ..ReplayOptions::default()
    };
    let replay = KernelReplay::from_bytes(recording(20), "bench", options).expect("a recording");
    let mut group = c.benchmark_group("replay");
    group.sample_size(10);
    group.throughput(Throughput::Elements(replay.survey().counts.page_events()));
    group.bench_function("read", |b| {
        b.iter(|| {
            let mut reader = replay.reader().expect("bytes in memory");
            while let Some(event) = reader.next_event().expect("a readable line") {
                black_box(event);
            }
        });
    });
    for kind in [PolicyKind::Linux, PolicyKind::Contiguitas] {
        let mut config = Config::new(kind);
        config.memory_bytes = 2 << 30;
        group.bench_function(kind.name(), |b| {
            b.iter(|| {
                replay
                    .run(std::slice::from_ref(&config), &|_| {})
                    .expect("a replay")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);
