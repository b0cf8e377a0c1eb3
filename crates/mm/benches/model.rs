// SPDX-License-Identifier: MIT OR Apache-2.0
//! Speed of the server model: page operations in steady state, and a simulated hour of `web`.

use ample_mm::{AllocRequest, Config, PolicyKind, PoolId, Rng, ServerModel, Workload, run};
use ample_pfn::PageClass;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// A 16 GB server: half anonymous memory, a sixteenth of network buffers, page cache until the
/// watermarks are reached.
fn busy_server(kind: PolicyKind) -> (ServerModel, PoolId) {
    let mut config = Config::new(kind);
    config.memory_bytes = 16 << 30;
    let mut server = ServerModel::new(&config).expect("a valid configuration");
    let frames = server.frames();
    let anon = server.new_pool();
    server.allocate(anon, &AllocRequest::new(PageClass::Anon), frames / 2, 0);
    let network = server.new_pool();
    let request = AllocRequest::new(PageClass::Network);
    server.allocate(network, &request, frames / 16, 1);
    server.read_cache(PageClass::File, frames / 2, 2);
    for _ in 0..60 {
        server.tick(1_000_000_000);
    }
    (server, network)
}

fn page_operations(c: &mut Criterion) {
    let mut group = c.benchmark_group("page_operations");
    const REPLACED: u32 = 100_000;
    // Each replacement is one allocation and one free.
    group.throughput(Throughput::Elements(2 * u64::from(REPLACED)));
    group.sample_size(20);
    for kind in [PolicyKind::Linux, PolicyKind::Contiguitas] {
        let (mut server, pool) = busy_server(kind);
        let request = AllocRequest::new(PageClass::Network);
        let len = server.pool_len(pool) as u32;
        let mut cursor = 0;
        group.bench_function(format!("{}/ring", kind.name()), |b| {
            b.iter(|| {
                for _ in 0..REPLACED {
                    cursor = if cursor + 1 < len { cursor + 1 } else { 0 };
                    black_box(server.replace(pool, cursor, &request, 1));
                }
            });
        });
        let mut rng = Rng::new(1);
        group.bench_function(format!("{}/random", kind.name()), |b| {
            b.iter(|| {
                for _ in 0..REPLACED {
                    let index = rng.below(len);
                    black_box(server.replace(pool, index, &request, 1));
                }
            });
        });
    }
    group.finish();
}

fn simulated_hour(c: &mut Criterion) {
    let mut group = c.benchmark_group("web_hour_4gb");
    group.sample_size(10);
    let workload = Workload::load("web").expect("a shipped workload");
    for kind in [PolicyKind::Linux, PolicyKind::Contiguitas] {
        let mut config = Config::new(kind);
        config.memory_bytes = 4 << 30;
        group.bench_function(kind.name(), |b| {
            b.iter(|| run(&config, &workload, 3600.0, 900.0, &|_| {}).expect("a valid run"));
        });
    }
    group.finish();
}

criterion_group!(benches, page_operations, simulated_hour);
criterion_main!(benches);
