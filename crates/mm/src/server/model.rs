// SPDX-License-Identifier: MIT OR Apache-2.0
//! One simulated server: its memory, its policy, and what owners can do with pages.

use crate::alloc::page;
use crate::alloc::request::AllocRequest;
use crate::compact::kcompactd;
use crate::compact::migrate::{move_block, split_huge};
use crate::config::{Config, PolicyKind, Rules};
use crate::counters::Counters;
use crate::kernel::SimKernel;
use crate::memory::{
    BLOCK_ORDER, BLOCK_PAGES, FrameKind, HIGH, LOW, MAX_FRAMES, MAX_ORDER, PoolId, begins_group,
};
use crate::policy::{self, Policy};
use crate::psi::{Psi, Stall};
use crate::reclaim::{kswapd, shrink};
use ample_kit::random::Xoshiro256 as Rng;
use ample_pfn::{
    BASE_PAGE_BYTES, Coverage, Layout, Metrics, MetricsBuilder, MigrateType, PageClass, PageSource,
    Pfn, SizeList,
};
use std::convert::Infallible;

/// Why a server could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// Less than the model can work with.
    #[error("{bytes} bytes of memory are too few; the model needs at least 64M")]
    TooSmall {
        /// What was asked for.
        bytes: u64,
    },
    /// More than frame numbers of the model can express.
    #[error("{bytes} bytes of memory are too many; the model goes up to 1T")]
    TooLarge {
        /// What was asked for.
        bytes: u64,
    },
    /// The pages do not belong to the layout.
    #[error("{given} pages were given for a layout that spans {expected} frames")]
    WrongLength {
        /// Pages given.
        given: u64,
        /// Frames of the layout.
        expected: u64,
    },
}

/// The pages of a snapshot on a server.
#[derive(Debug, Default)]
pub(crate) struct SnapshotPages {
    /// Pools by class; page cache is on the lists of the LRU instead.
    pub(crate) pools: Vec<(PageClass, PoolId)>,
    /// Pages placed, page cache included.
    pub(crate) placed: u64,
}

/// A simulated server under one policy. All operations are deterministic in the configuration
/// and the order of the calls. A CPU number may be any: it stands for one of the server's.
#[derive(Debug)]
pub struct ServerModel {
    pub(crate) kernel: SimKernel,
    pub(crate) policy: Box<dyn Policy>,
    layout: Layout,
    first: u64,
    kind: PolicyKind,
    /// What a snapshot left: pools by class, and pages placed in all, until a workload takes over.
    pub(super) snapshot: SnapshotPages,
}

const MIN_BYTES: u64 = 64 << 20;
const MAX_BYTES: u64 = MAX_FRAMES * BASE_PAGE_BYTES;
/// What a task waits for a long-term pin that is refused.
const FAILED_PIN_NS: u64 = 1_000_000;

impl ServerModel {
    /// A freshly booted server: all memory free, in one zone from frame 0.
    ///
    /// # Errors
    /// [`ServerError`] when the memory is too small or too large for the model.
    pub fn new(config: &Config) -> Result<ServerModel, ServerError> {
        ServerModel::with_policy(config, policy::build(&config.policy))
    }

    /// As [`ServerModel::new`], with a policy that decides instead of the configured one.
    pub(crate) fn with_policy(
        config: &Config,
        policy: Box<dyn Policy>,
    ) -> Result<ServerModel, ServerError> {
        if config.memory_bytes > MAX_BYTES {
            let bytes = config.memory_bytes;
            return Err(ServerError::TooLarge { bytes });
        }
        let granule = BASE_PAGE_BYTES << MAX_ORDER;
        let bytes = config.memory_bytes / granule * granule;
        let layout = Layout::single(Pfn(0), (bytes / BASE_PAGE_BYTES).max(1));
        let mut server = ServerModel::bare(config, policy, layout, config.memory_bytes)?;
        let count = server.frames();
        server.policy.boot(&mut server.kernel, 0);
        server.kernel.zone.release(0, count);
        Ok(server)
    }

    /// A machine whose frames are in no block yet and whose policy has not booted.
    pub(crate) fn bare(
        config: &Config,
        policy: Box<dyn Policy>,
        layout: Layout,
        bytes: u64,
    ) -> Result<ServerModel, ServerError> {
        if bytes < MIN_BYTES {
            return Err(ServerError::TooSmall { bytes });
        }
        let granule = 1u64 << MAX_ORDER;
        let span = layout.span();
        let first = span.start.0 / granule * granule;
        let count = (span.end.0 - first).next_multiple_of(granule);
        if count * BASE_PAGE_BYTES > MAX_BYTES {
            return Err(ServerError::TooLarge {
                bytes: count * BASE_PAGE_BYTES,
            });
        }
        let rules = Rules {
            tuning: config.tuning,
            marks: config.marks,
            costly: config.costly,
            ..policy.rules()
        };
        let kernel = SimKernel::new(count as u32, config.cpus, rules, config.seed);
        Ok(ServerModel {
            kernel,
            policy,
            layout,
            first,
            kind: config.policy.kind,
            snapshot: SnapshotPages::default(),
        })
    }

    /// The policy it runs.
    pub fn policy(&self) -> PolicyKind {
        self.kind
    }

    /// Frame number of the model's frame 0.
    pub(crate) fn first_frame(&self) -> u64 {
        self.first
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.kernel.counters
    }

    /// Stall time so far.
    pub fn pressure(&self) -> &Psi {
        &self.kernel.psi
    }

    /// Frames of the machine, holes included.
    pub fn frames(&self) -> u32 {
        self.kernel.zone.frames().len()
    }

    /// Pages below the border; `None` where there is no border.
    pub fn border_pages(&self) -> Option<u64> {
        let zone = &self.kernel.zone;
        (zone.border() > 0).then(|| zone.region_pages(LOW))
    }

    /// Free pages of the machine, per-CPU lists included.
    pub fn free_pages(&self) -> u64 {
        self.kernel.all_free_pages()
    }

    /// Free pages that user memory and page cache may take: those below a border that confines are
    /// the kernel's. Per-CPU lists included.
    pub fn free_user_pages(&self) -> u64 {
        let regions = self.kernel.route(MigrateType::Movable).iter();
        let in_lists: u64 = regions.map(|&region| self.kernel.cpus.pages(region)).sum();
        self.kernel.free_user_pages() + in_lists
    }

    /// A new owner with no pages yet.
    pub fn new_pool(&mut self) -> PoolId {
        self.kernel.pools.create()
    }

    /// Lets the shrinkers free pages of this pool (of class slab-reclaimable).
    pub fn set_shrinkable(&mut self, pool: PoolId) {
        self.kernel.pools.set_shrinkable(pool);
    }

    /// Blocks in a pool.
    pub fn pool_len(&self, pool: PoolId) -> usize {
        self.kernel.pools.len(pool) as usize
    }

    /// Allocates one block; its first frame. The caller hands it to a pool or to the page cache,
    /// or frees it.
    #[inline]
    pub(crate) fn alloc(&mut self, request: &AllocRequest, cpu: usize) -> Option<u32> {
        page::alloc(&mut self.kernel, &mut *self.policy, request, cpu)
    }

    /// Allocates `count` blocks into a pool; how many it got.
    pub fn allocate(
        &mut self,
        pool: PoolId,
        request: &AllocRequest,
        count: u32,
        cpu: usize,
    ) -> u32 {
        let mut done = 0;
        while done < count {
            let kernel = &mut self.kernel;
            let hot = page::hot_into_pool(kernel, pool, request, cpu, count - done);
            if hot == 0 {
                match self.alloc(request, cpu) {
                    Some(pfn) => self.kernel.give(pool, pfn),
                    None => break,
                }
            }
            done += hot.max(1);
        }
        done
    }

    /// Frees `count` randomly chosen blocks of a pool; how many it freed.
    pub fn release(&mut self, pool: PoolId, count: u32, cpu: usize) -> u32 {
        for done in 0..count {
            let kernel = &mut self.kernel;
            if begins_group(done) {
                let frames = kernel.zone.frames();
                kernel.pools.touch_removals(frames, pool, &kernel.rng);
            }
            let len = kernel.pools.len(pool);
            if len == 0 {
                return done;
            }
            let index = kernel.rng.below(len);
            self.free_entry(pool, index, cpu);
        }
        count
    }

    /// Frees the block at `index` of a pool.
    pub(crate) fn free_entry(&mut self, pool: PoolId, index: u32, cpu: usize) {
        let kernel = &mut self.kernel;
        let pfn = kernel.take_from(pool, index);
        if kernel.zone.block_of(pfn).giga {
            kernel.counters.frees += 1;
            kernel.zone.free_giga(pfn);
        } else {
            kernel.free(pfn, cpu);
        }
    }

    /// Frees everything a pool holds.
    pub fn release_all(&mut self, pool: PoolId, cpu: usize) {
        while let Some(last) = self.kernel.pools.len(pool).checked_sub(1) {
            if begins_group(last) {
                let frames = self.kernel.zone.frames();
                self.kernel.pools.touch_last(frames, pool);
            }
            self.free_entry(pool, last, cpu);
        }
    }

    /// Replaces the block at `index` by a new one for the same use, then frees the old one: the
    /// pool keeps its size. Whether there was a new block; if not, the old one stays.
    #[inline]
    pub fn replace(
        &mut self,
        pool: PoolId,
        index: u32,
        request: &AllocRequest,
        cpu: usize,
    ) -> bool {
        let Some(new) = self.alloc(request, cpu) else {
            return false;
        };
        let kernel = &mut self.kernel;
        let frames = kernel.zone.frames_mut();
        // The allocation may have moved the old block (compaction) or freed it (a shrinker).
        match kernel.pools.replace(frames, pool, index, new) {
            Some(old) => kernel.free(old, cpu),
            None => kernel.give(pool, new),
        }
        true
    }

    /// Reads `count` new pages into the page cache; how many found memory.
    pub fn read_cache(&mut self, class: PageClass, count: u32, cpu: usize) -> u32 {
        let request = AllocRequest::new(class);
        let mut done = 0;
        while done < count {
            let hot = page::hot_into_cache(&mut self.kernel, &request, cpu, count - done);
            if hot == 0 {
                match self.alloc(&request, cpu) {
                    Some(pfn) => self.kernel.cache(pfn),
                    None => break,
                }
            }
            done += hot.max(1);
        }
        done
    }

    /// A page-cache page picked at random, if a few tries find one.
    pub(crate) fn random_cached(&self, rng: &mut Rng) -> Option<u32> {
        (0..8).find_map(|_| {
            let pfn = rng.below(self.frames());
            let state = self.kernel.zone.state(pfn);
            // Only heads of used blocks carry that flag; interior frames are cleared when
            // blocks merge.
            (state.kind() == FrameKind::Used && state.on_lru()).then_some(pfn)
        })
    }

    /// A page of the cache is read again.
    pub(crate) fn reread(&mut self, pfn: u32) {
        let frames = self.kernel.zone.frames_mut();
        self.kernel.lru.mark_used(frames, pfn);
    }

    /// Drops up to `count` cache pages from `pfn` on, as when their file is deleted.
    pub(crate) fn drop_file(&mut self, pfn: u32, count: u32) {
        shrink::drop_file(&mut self.kernel, pfn, count);
    }

    /// Takes or drops the short pin (direct I/O) of a page.
    pub(crate) fn pin_shortly(&mut self, pfn: u32, on: bool) {
        let frames = self.kernel.zone.frames_mut();
        frames.set(pfn, frames.get(pfn).with_short_pin(on));
    }

    /// Takes a long-term pin on the block at `index` of a pool (`FOLL_LONGTERM`): the page
    /// becomes unmovable, after a migration where the policy wants one, and belongs to pool
    /// `into` until it is unpinned and freed. Whether it worked.
    pub fn pin_long(&mut self, pool: PoolId, index: u32, into: PoolId) -> bool {
        let kernel = &mut self.kernel;
        let mut pfn = kernel.pools.entries(pool)[index as usize];
        if kernel.zone.state(pfn).order() > 0 {
            split_huge(kernel, pfn);
        }
        if self.policy.must_move_to_pin(kernel, pfn) {
            let target = self.policy.pin_target(kernel);
            // Making room for the target may itself have moved the page.
            pfn = kernel.pools.entries(pool)[index as usize];
            let Some(target) = target else {
                kernel.counters.failed_pins += 1;
                kernel.psi.stall(Stall::Unmovable, FAILED_PIN_NS);
                return false;
            };
            move_block(kernel, pfn, target);
            kernel.counters.pin_migrations += 1;
            pfn = target;
        }
        kernel.zone.set_class(pfn, PageClass::Pinned);
        kernel.take_from(pool, index);
        kernel.give(into, pfn);
        kernel.counters.long_pins += 1;
        true
    }

    /// Background work of the kernel for `elapsed_ns` of simulated time: pressure averages,
    /// kswapd, kcompactd, the resizer.
    pub fn tick(&mut self, elapsed_ns: u64) {
        let kernel = &mut self.kernel;
        kernel.now_ns += elapsed_ns;
        kernel.psi.update(elapsed_ns);
        for region in [LOW, HIGH] {
            kswapd::run(kernel, region, elapsed_ns);
        }
        kcompactd::run(kernel, elapsed_ns);
        self.policy.tick(kernel, elapsed_ns);
    }

    /// The metrics of the present state at the standard block sizes.
    pub fn metrics(&self) -> Metrics {
        self.tallies().finish(&Coverage::exact())
    }

    /// Per-block tallies of the present state, for metrics and memory maps.
    pub fn tallies(&self) -> MetricsBuilder {
        let mut builder = MetricsBuilder::new(&self.layout, &SizeList::standard());
        let zone = &self.kernel.zone;
        for b in 0..zone.block_count() {
            builder.push_counts(self.start_of(b), &zone.class_counts(b));
        }
        builder
    }

    /// First frame of pageblock `b`.
    fn start_of(&self, b: u32) -> Pfn {
        Pfn(self.first + (u64::from(b) << BLOCK_ORDER))
    }

    /// Verifies that no page is in two places, that counts equal the sums over lists, that
    /// blocks agree with their pages and that the border is respected.
    ///
    /// # Errors
    /// A sentence about the first violation, with the frame.
    pub fn check(&self) -> Result<(), String> {
        self.kernel.check()?;
        let zone = &self.kernel.zone;
        // The ablation without migrate-before-pin pins pages where they are.
        let pins_in_place =
            zone.border() > 0 && !self.policy.must_move_to_pin(&self.kernel, zone.border());
        if !self.kind.confines() || pins_in_place {
            return Ok(());
        }
        match policy::border_violation(zone) {
            Some(pfn) => Err(format!("frame {pfn:#x} is on the wrong side of the border")),
            None => Ok(()),
        }
    }
}

impl PageSource for ServerModel {
    type Error = Infallible;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn for_each_chunk(
        &mut self,
        sink: &mut dyn FnMut(Pfn, &[PageClass]),
    ) -> Result<(), Infallible> {
        let mut classes = [PageClass::Hole; BLOCK_PAGES as usize];
        for b in 0..self.kernel.zone.block_count() {
            self.kernel.zone.classes(b, &mut classes);
            sink(self.start_of(b), &classes);
        }
        Ok(())
    }
}
