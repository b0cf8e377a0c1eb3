// SPDX-License-Identifier: MIT OR Apache-2.0
//! One source of kernel memory: how much it holds, and from what requests.

use super::spec::KernelSpec;
use crate::alloc::request::AllocRequest;
use crate::memory::{PoolId, begins_group};
use crate::server::ServerModel;
use ample_kit::random::Xoshiro256 as Rng;
use ample_pfn::PageClass;

/// A source and what it holds.
#[derive(Debug)]
pub(super) struct Source {
    spec: KernelSpec,
    request: AllocRequest,
    /// Blocks of the order that it asks for.
    pool: PoolId,
    /// Pages taken one by one because a block would have meant waiting.
    singles: PoolId,
    cursor: u32,
    burst_left_s: f64,
    burst_pages: f64,
    phase: f64,
}

impl Source {
    pub(super) fn new(server: &mut ServerModel, spec: &KernelSpec, phase: f64) -> Source {
        let class = PageClass::from_name(&spec.class).unwrap_or(PageClass::KernelOther);
        let pool = server.new_pool();
        if class == PageClass::SlabReclaimable {
            server.set_shrinkable(pool);
        }
        Source {
            spec: spec.clone(),
            request: AllocRequest {
                class,
                order: spec.order,
                atomic: spec.atomic,
                light: spec.single_page_fallback,
                long_lived: spec.long_lived,
            },
            pool,
            singles: server.new_pool(),
            cursor: 0,
            burst_left_s: 0.0,
            burst_pages: 0.0,
            phase,
        }
    }

    /// The pool that takes over pages of a snapshot, one by one.
    pub(super) fn adopting_pool(&self) -> PoolId {
        if self.spec.order == 0 {
            self.pool
        } else {
            self.singles
        }
    }

    /// What its pages are used for.
    pub(super) fn class(&self) -> PageClass {
        self.request.class
    }

    /// A burst ends or begins, by chance: called once a second.
    pub(super) fn start_bursts(&mut self, pages: f64, rng: &mut Rng) {
        self.burst_left_s -= 1.0;
        let every = self.spec.burst_every_s;
        if self.burst_left_s <= 0.0 {
            self.burst_pages = 0.0;
            if every > 0.0 && rng.chance(1.0 / every) {
                self.burst_pages = self.spec.burst_ratio * pages * (0.5 + rng.unit());
                self.burst_left_s = self.spec.burst_s * (0.5 + rng.unit());
            }
        }
    }

    /// Share of memory that it takes at boot; `None` when it takes nothing then, or in the other
    /// round (long-lived memory comes first).
    pub(super) fn at_boot(&self, long_lived: bool) -> Option<f64> {
        let spec = &self.spec;
        let ratio = if spec.grow_s == 0.0 {
            spec.level_ratio.max(spec.boot_ratio)
        } else {
            spec.boot_ratio
        };
        (ratio > 0.0 && spec.long_lived == long_lived).then_some(ratio)
    }

    /// Pages it should hold now.
    pub(super) fn goal(&self, pages: f64, time_s: f64) -> f64 {
        let ramp = match self.spec.grow_s {
            0.0 => 1.0,
            grow_s => (time_s / grow_s).min(1.0),
        };
        let wave = if self.spec.wave_s > 0.0 {
            let angle = (time_s / self.spec.wave_s + self.phase) * std::f64::consts::TAU;
            1.0 + self.spec.wave_ratio * angle.sin()
        } else {
            1.0
        };
        let level = self.spec.level_ratio * pages;
        let trend = (self.spec.trend_per_hour * pages * time_s / 3600.0).min(level);
        level * ramp * wave + trend + self.burst_pages
    }

    /// Pages a second by which it follows its goal: within some twenty seconds.
    pub(super) fn pace(&self, pages: f64) -> f64 {
        (pages * self.spec.level_ratio.max(self.spec.burst_ratio) / 20.0).max(8.0)
    }

    /// Moves what it holds towards `goal` pages, by `pace` pages at most.
    pub(super) fn adjust(&mut self, server: &mut ServerModel, goal: f64, pace: f64, rng: &mut Rng) {
        let block = f64::from(1u32 << self.request.order);
        let have = server.pool_len(self.pool) as f64 + server.pool_len(self.singles) as f64 / block;
        let change = (goal / block - have).clamp(-pace / block, pace / block);
        let cpu = rng.below(64) as usize;
        if change >= 1.0 || change > 0.0 && rng.chance(change) {
            self.grow(server, change.max(1.0) as u32, cpu);
        } else if change <= -1.0 {
            self.shrink(server, (-change) as u32, cpu, rng);
        }
    }

    /// Takes `blocks` more blocks, or the same memory in single pages.
    fn grow(&self, server: &mut ServerModel, blocks: u32, cpu: usize) {
        let got = server.allocate(self.pool, &self.request, blocks, cpu);
        if self.spec.single_page_fallback {
            let pages = (blocks - got) << self.request.order;
            server.allocate(self.singles, &self.single(), pages, cpu);
        }
    }

    /// The request for one page, which may wait (`skb_page_frag_refill`, `net/core/sock.c`, 6.12).
    fn single(&self) -> AllocRequest {
        AllocRequest {
            order: 0,
            light: false,
            ..self.request
        }
    }

    /// Gives back `blocks` blocks, from blocks and single pages in proportion to what it holds.
    fn shrink(&self, server: &mut ServerModel, blocks: u32, cpu: usize, rng: &mut Rng) {
        let order = self.request.order;
        let singles = server.pool_len(self.singles) as f64;
        if singles == 0.0 {
            server.release(self.pool, blocks, cpu);
            return;
        }
        let all = singles + (server.pool_len(self.pool) << order) as f64;
        let pages = rng.round(f64::from(blocks << order) * singles / all);
        server.release(self.singles, pages, cpu);
        server.release(self.pool, blocks.saturating_sub(pages >> order), cpu);
    }

    /// Replaces blocks and single pages by new ones for a part of a second.
    pub(super) fn churn(&mut self, server: &mut ServerModel, seconds: f64, rng: &mut Rng) {
        let ratio = self.spec.churn_per_hour / 3600.0 * seconds;
        let blocks = rng.round(server.pool_len(self.pool) as f64 * ratio);
        let cpu = rng.below(64) as usize;
        for done in 0..blocks {
            let len = server.pool_len(self.pool) as u32;
            if len == 0 {
                return;
            }
            let (pools, frames) = (&server.kernel.pools, server.kernel.zone.frames());
            if begins_group(done) && self.spec.fifo {
                pools.touch_run(frames, self.pool, self.cursor);
            } else if begins_group(done) {
                pools.touch_replacements(frames, self.pool, rng);
            }
            let index = self.victim(len, rng);
            let replaced = server.replace(self.pool, index, &self.request, cpu);
            if !replaced && self.spec.single_page_fallback {
                self.grow(server, 1, cpu);
                server.free_entry(self.pool, index, cpu);
            }
        }
        if self.spec.single_page_fallback {
            self.churn_singles(server, ratio, cpu, rng);
        }
    }

    /// As many single pages as a block has go at a time, for a block if there is one by now.
    fn churn_singles(&self, server: &mut ServerModel, ratio: f64, cpu: usize, rng: &mut Rng) {
        let block = 1u32 << self.request.order;
        let singles = server.pool_len(self.singles) as f64;
        for _ in 0..rng.round(singles * ratio / f64::from(block)) {
            let old = block.min(server.pool_len(self.singles) as u32);
            self.grow(server, 1, cpu);
            server.release(self.singles, old, cpu);
        }
    }

    /// Which of `len` blocks goes next: the oldest of a ring, or any.
    fn victim(&mut self, len: u32, rng: &mut Rng) -> u32 {
        if !self.spec.fifo {
            return rng.below(len);
        }
        self.cursor = if self.cursor + 1 < len {
            self.cursor + 1
        } else {
            0
        };
        self.cursor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PolicyKind};
    use crate::memory::HIGH;

    fn sends() -> KernelSpec {
        let text = "name = \"x\"\ntitle = \"x\"\n[[kernel]]\nname = \"s\"\nclass = \"network\"\n\
                    level_ratio = 0.01\norder = 3\nsingle_page_fallback = true\n\
                    churn_per_hour = 3600\n";
        let workload = super::super::spec::Workload::parse(text, "w.toml").expect("valid");
        workload.kernel[0].clone()
    }

    /// A server of 64 MB whose free pages lie alone between others, and a source of sends.
    fn scattered() -> (ServerModel, Source, PoolId) {
        let mut config = Config::new(PolicyKind::Linux);
        config.memory_bytes = 64 << 20;
        let mut server = ServerModel::new(&config).expect("a valid size");
        let user = server.new_pool();
        let pages = server.kernel.zone.free_pages(HIGH) as u32;
        server.allocate(user, &AllocRequest::new(PageClass::Anon), pages, 0);
        // Every fourth page becomes free: no two beside each other.
        for index in (0..server.pool_len(user) as u32).rev() {
            if server.kernel.pools.entries(user)[index as usize].is_multiple_of(4) {
                server.free_entry(user, index, 0);
            }
        }
        server.kernel.drain_all();
        assert_eq!(
            server
                .kernel
                .zone
                .area(HIGH)
                .orders(ample_pfn::MigrateType::Movable)
                >> 3,
            0
        );
        let source = Source::new(&mut server, &sends(), 0.0);
        (server, source, user)
    }

    #[test]
    fn a_block_that_would_mean_waiting_becomes_single_pages() {
        let (mut server, mut source, _) = scattered();
        let mut rng = Rng::new(1);
        source.adjust(&mut server, 256.0, f64::INFINITY, &mut rng);
        assert_eq!(server.pool_len(source.pool), 0);
        assert_eq!(server.pool_len(source.singles), 256);
        assert_eq!(server.kernel.counters.compact_stalls, 0);
        // kswapd heard of the order, and kcompactd from it.
        server.tick(1_000_000_000);
        assert!(server.kernel.counters.migrated_pages > 0);
        server.check().expect("sound");
    }

    #[test]
    fn single_pages_become_blocks_again_when_there_are_some() {
        let (mut server, mut source, user) = scattered();
        let mut rng = Rng::new(1);
        source.adjust(&mut server, 256.0, f64::INFINITY, &mut rng);
        server.release_all(user, 0);
        server.kernel.drain_all();
        source.churn(&mut server, 4.0, &mut rng);
        assert_eq!(server.pool_len(source.singles), 0);
        assert!(server.pool_len(source.pool) >= 32);
        server.check().expect("sound");
    }

    #[test]
    fn what_it_gives_back_comes_from_both_in_proportion() {
        let (mut server, mut source, user) = scattered();
        let mut rng = Rng::new(1);
        source.adjust(&mut server, 128.0, f64::INFINITY, &mut rng);
        server.release_all(user, 0);
        server.kernel.drain_all();
        source.adjust(&mut server, 256.0, f64::INFINITY, &mut rng);
        let (singles, blocks) = (
            server.pool_len(source.singles),
            server.pool_len(source.pool),
        );
        assert_eq!((singles, blocks), (128, 16));
        source.adjust(&mut server, 128.0, f64::INFINITY, &mut rng);
        let (singles, blocks) = (
            server.pool_len(source.singles),
            server.pool_len(source.pool),
        );
        assert_eq!(singles + 8 * blocks, 128);
        assert_eq!(blocks, 8);
    }
}
