// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random operations under every policy: no page in two places, counts equal lists, the border
//! respected, pages conserved.

use ample_mm::{
    AllocRequest, Config, CostlyRequests, Mechanisms, PolicyKind, PoolId, Rng, ServerModel,
};
use ample_pfn::{MetricsBuilder, PageClass, SizeList};
use proptest::prelude::*;

const CLASSES: [PageClass; 10] = [
    PageClass::Anon,
    PageClass::Shmem,
    PageClass::Network,
    PageClass::SlabReclaimable,
    PageClass::Slab,
    PageClass::PageTable,
    PageClass::FsBuffer,
    PageClass::KernelStack,
    PageClass::Dma,
    PageClass::Anon,
];

struct Machine {
    server: ServerModel,
    pools: Vec<PoolId>,
    pinned: PoolId,
    rng: Rng,
    /// Allocated through the interface and not freed, in blocks, by pool.
    expected: Vec<usize>,
}

impl Machine {
    fn new(kind: PolicyKind, mechanisms: Mechanisms, seed: u64) -> Machine {
        let mut config = Config::new(kind);
        config.memory_bytes = 128 << 20;
        config.policy.mechanisms = mechanisms;
        config.cpus = 2;
        config.seed = seed;
        if seed.is_multiple_of(2) {
            config.costly = CostlyRequests::Patient;
        }
        let mut server = ServerModel::new(&config).expect("a valid configuration");
        let pools: Vec<PoolId> = CLASSES.iter().map(|_| server.new_pool()).collect();
        server.set_shrinkable(pools[3]);
        let pinned = server.new_pool();
        Machine {
            expected: vec![0; pools.len()],
            server,
            pools,
            pinned,
            rng: Rng::new(seed),
        }
    }

    fn step(&mut self) {
        let pick = self.rng.below(CLASSES.len() as u32) as usize;
        let pool = self.pools[pick];
        let cpu = self.rng.below(2) as usize;
        let orders: &[u32] = if pick == 0 {
            &[0, 0, 9]
        } else {
            &[0, 0, 0, 1, 3]
        };
        let order = orders[self.rng.below(orders.len() as u32) as usize];
        let mut request = AllocRequest::new(CLASSES[pick]).order(order);
        if self.rng.below(8) == 0 {
            request = request.atomic();
        }
        if self.rng.below(8) == 0 {
            request = request.light();
        }
        let len = self.server.pool_len(pool) as u32;
        let few = 1 + self.rng.below(200);
        match self.rng.below(16) {
            0..5 => {
                self.server.allocate(pool, &request, few, cpu);
            }
            5..9 => {
                self.server.release(pool, few, cpu);
            }
            9..11 if len > 0 => {
                for _ in 0..few {
                    let index = self.rng.below(self.server.pool_len(pool).max(1) as u32);
                    if (index as usize) < self.server.pool_len(pool) {
                        self.server.replace(pool, index, &request, cpu);
                    }
                }
            }
            11 => {
                self.server.read_cache(PageClass::File, few * 4, cpu);
            }
            12 if self.server.pool_len(self.pools[0]) > 0 => {
                let len = self.server.pool_len(self.pools[0]) as u32;
                let index = self.rng.below(len);
                self.server.pin_long(self.pools[0], index, self.pinned);
            }
            13 if self.rng.below(20) == 0 => self.server.release_all(pool, cpu),
            14 => {
                self.server.hugetlb_2m(self.pools[9], 1);
            }
            _ => self.server.tick(1_000_000_000),
        }
    }
}

fn run(kind: PolicyKind, mechanisms: Mechanisms, seed: u64, steps: u32) {
    let mut machine = Machine::new(kind, mechanisms, seed);
    for step in 0..steps {
        machine.step();
        if step % 16 == 0
            && let Err(why) = machine.server.check()
        {
            panic!("{} seed {seed} step {step}: {why}", kind.name());
        }
    }
    // The counts of a block are those of its pages.
    let counted = machine.server.tallies();
    let Ok(by_page) = MetricsBuilder::collect(&mut machine.server, &SizeList::standard());
    assert_eq!(counted.blocks(), by_page.blocks(), "seed {seed}");
    for (pool, expected) in machine.pools.clone().into_iter().zip(&machine.expected) {
        machine.server.release_all(pool, 0);
        assert_eq!(machine.server.pool_len(pool), *expected);
    }
    machine.server.release_all(machine.pinned, 0);
    machine.server.check().expect("after everything is freed");
    let metrics = machine.server.metrics();
    let cached = metrics.total.class_pages.get("file").copied().unwrap_or(0);
    let frames = u64::from(machine.server.frames());
    assert_eq!(machine.server.free_pages() + cached, frames, "pages leaked");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_after_any_operations(seed in any::<u64>(), policy in 0usize..5) {
        run(PolicyKind::ALL[policy], Mechanisms::default(), seed, 160);
    }

    #[test]
    fn invariants_hold_with_any_mechanism_off(seed in any::<u64>(), off in 0usize..7) {
        let mechanisms = Mechanisms::without(Mechanisms::NAMES[off]).expect("a name");
        run(PolicyKind::Contiguitas, mechanisms, seed, 160);
        run(PolicyKind::ContiguitasHw, mechanisms, seed, 160);
    }
}

#[test]
fn pages_are_conserved_over_millions_of_operations() {
    for kind in PolicyKind::ALL {
        let mut machine = Machine::new(kind, Mechanisms::default(), 7);
        for _ in 0..10_000 {
            machine.step();
        }
        let done = machine.server.counters();
        assert!(done.allocs + done.frees > 400_000, "{}", kind.name());
        if let Err(why) = machine.server.check() {
            panic!("{}: {why}", kind.name());
        }
    }
}
