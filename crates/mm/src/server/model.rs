// SPDX-License-Identifier: MIT OR Apache-2.0
//! One simulated server: its memory, its policy, and what owners can do with pages.

use crate::Rng;
use crate::ahead::begins_group;
use crate::alloc::Request;
use crate::config::{Config, PolicyKind};
use crate::core::{BLOCK_ORDER, BLOCK_PAGES, Core, HIGH, LOW, MAX_ORDER};
use crate::counters::Counters;
use crate::frame::{Kind, MAX_FRAMES, State};
use crate::huge::PoolId;
use crate::list::List;
use crate::policy::{self, Policy};
use crate::psi::{Psi, Stall};
use ample_pfn::{
    BASE_PAGE_BYTES, CLASS_COUNT, Coverage, Layout, Metrics, MetricsBuilder, PageClass, PageSource,
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

/// A server under one policy. All operations are deterministic in the configuration and the
/// order of the calls.
#[derive(Debug)]
pub struct Server {
    pub(crate) core: Core,
    pub(crate) policy: Box<dyn Policy>,
    layout: Layout,
    first: u64,
    kind: PolicyKind,
}

const MIN_BYTES: u64 = 64 << 20;
const MAX_BYTES: u64 = MAX_FRAMES * BASE_PAGE_BYTES;

impl Server {
    /// A freshly booted server: all memory free, in one zone from frame 0.
    ///
    /// # Errors
    /// [`ServerError`] when the memory is too small or too large for the model.
    pub fn new(config: &Config) -> Result<Server, ServerError> {
        let granule = BASE_PAGE_BYTES << MAX_ORDER;
        let bytes = config.memory_bytes / granule * granule;
        let layout = Layout::single(Pfn(0), (bytes / BASE_PAGE_BYTES).max(1));
        let mut server = Server::bare(config, layout, config.memory_bytes)?;
        let count = server.core.frames.len();
        server.policy.boot(&mut server.core, 0);
        server.core.release(0, count);
        Ok(server)
    }

    pub(crate) fn bare(config: &Config, layout: Layout, bytes: u64) -> Result<Server, ServerError> {
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
        let policy = policy::build(&config.policy);
        let core = Core::new(count as u32, config.cpus, policy.rules(), config.seed);
        Ok(Server {
            core,
            policy,
            layout,
            first,
            kind: config.policy.kind,
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
        &self.core.counters
    }

    /// Stall time so far.
    pub fn pressure(&self) -> &Psi {
        &self.core.psi
    }

    /// Frames of the machine, holes included.
    pub fn frames(&self) -> u32 {
        self.core.frames.len()
    }

    /// Pages below the border; `None` where there is no border.
    pub fn border_pages(&self) -> Option<u64> {
        (self.core.border > 0).then(|| self.core.region_pages(LOW))
    }

    /// Memory the model itself uses for each frame, in bytes: its state and the entries of
    /// pools and lists.
    pub fn bytes_per_frame(&self) -> f64 {
        let core = &self.core;
        let owned: usize = core.pools.iter().map(|pool| pool.capacity() * 4).sum();
        let free = core.areas.iter().flat_map(|area| area.all_lists());
        let listed: usize = (free.map(|(_, _, list)| list))
            .chain(&core.lru)
            .map(List::bytes)
            .sum();
        let blocks = size_of_val(&core.blocks[..]);
        let rest = (owned + listed + blocks) as f64 / f64::from(core.frames.len());
        size_of::<State>() as f64 + rest
    }

    /// A new owner with no pages yet.
    pub fn new_pool(&mut self) -> PoolId {
        PoolId(self.core.new_pool())
    }

    /// Lets the shrinkers free pages of this pool (of class slab-reclaimable).
    pub fn set_shrinkable(&mut self, pool: PoolId) {
        self.core.shrinkable.push(pool.0);
    }

    /// Blocks in a pool.
    pub fn pool_len(&self, pool: PoolId) -> usize {
        self.core.pools[pool.0 as usize].len()
    }

    /// Allocates `count` blocks into a pool; how many it got.
    pub fn allocate(&mut self, pool: PoolId, request: &Request, count: u32, cpu: usize) -> u32 {
        self.grow(pool.0, request, count, cpu)
    }

    pub(crate) fn grow(&mut self, pool: u32, request: &Request, count: u32, cpu: usize) -> u32 {
        let mut done = 0;
        while done < count {
            let hot = (self.core).take_hot_into_pool(pool, request, cpu, count - done);
            if hot == 0 {
                match self.alloc(request, cpu) {
                    Some(pfn) => self.core.pool_push(pool, pfn),
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
            if begins_group(done) {
                self.core.touch_removals(pool.0, &self.core.rng);
            }
            let len = self.core.pools[pool.0 as usize].len() as u32;
            if len == 0 {
                return done;
            }
            let index = self.core.rng.below(len);
            self.free_entry(pool.0, index, cpu);
        }
        count
    }

    /// Frees the block at `index` of a pool.
    pub(crate) fn free_entry(&mut self, pool: u32, index: u32, cpu: usize) {
        let pfn = self.core.pool_take(pool, index);
        if self.core.blocks[(pfn >> BLOCK_ORDER) as usize].giga {
            self.free_giga(pfn);
        } else {
            self.free(pfn, cpu);
        }
    }

    /// Frees everything a pool holds.
    pub fn release_all(&mut self, pool: PoolId, cpu: usize) {
        while let Some(last) = self.pool_len(pool).checked_sub(1) {
            if begins_group(last as u32) {
                self.core.touch_last(pool.0);
            }
            self.free_entry(pool.0, last as u32, cpu);
        }
    }

    /// Replaces the block at `index` by a new one for the same use, then frees the old one: the
    /// pool keeps its size. Whether the new block could be had; if not, the old one stays.
    #[inline]
    pub fn replace(&mut self, pool: PoolId, index: u32, request: &Request, cpu: usize) -> bool {
        let Some(new) = self.alloc(request, cpu) else {
            return false;
        };
        // The allocation may have moved the old block (compaction) or freed it (a shrinker).
        let Some(entry) = self.core.pools[pool.0 as usize].get_mut(index as usize) else {
            self.core.pool_push(pool.0, new);
            return true;
        };
        let old = std::mem::replace(entry, new);
        let state = self.core.frames.get(new);
        self.core.frames.set(new, state.in_pool(pool.0, index));
        self.free(old, cpu);
        true
    }

    /// Reads `count` new pages into the page cache; how many found memory.
    pub fn read_cache(&mut self, class: PageClass, count: u32, cpu: usize) -> u32 {
        let request = Request::new(class);
        let mut done = 0;
        while done < count {
            let hot = (self.core).take_hot_into_cache(&request, cpu, count - done);
            if hot == 0 {
                match self.alloc(&request, cpu) {
                    Some(pfn) => self.core.lru_add(pfn),
                    None => break,
                }
            }
            done += hot.max(1);
        }
        done
    }

    /// Takes a long-term pin on the block at `index` of a pool (`FOLL_LONGTERM`): the page
    /// becomes unmovable, after a migration where the policy wants one, and belongs to pool
    /// `into` until it is unpinned and freed. Whether it worked.
    pub fn pin_long(&mut self, pool: PoolId, index: u32, into: PoolId) -> bool {
        let mut pfn = self.core.pools[pool.0 as usize][index as usize];
        let state = self.core.frames.get(pfn);
        if state.order() > 0 {
            self.core.split_huge(pfn);
        }
        if self.policy.must_move_to_pin(&self.core, pfn) {
            let target = self.policy.pin_target(&mut self.core);
            // Making room for the target may itself have moved the page.
            pfn = self.core.pools[pool.0 as usize][index as usize];
            let Some(target) = target else {
                self.core.counters.failed_pins += 1;
                self.core.psi.stall(Stall::Unmovable, 1_000_000);
                return false;
            };
            self.core.move_block(pfn, target);
            self.core.counters.pin_migrations += 1;
            pfn = target;
        }
        self.set_class(pfn, PageClass::Pinned);
        self.core.pool_take(pool.0, index);
        self.core.pool_push(into.0, pfn);
        self.core.counters.long_pins += 1;
        true
    }

    /// A page-cache page picked at random, if a few tries find one.
    pub(crate) fn random_cached(&self, rng: &mut Rng) -> Option<u32> {
        (0..8).find_map(|_| {
            let pfn = rng.below(self.core.frames.len());
            let state = self.core.frames.get(pfn);
            // Only heads of used blocks carry that flag; interior frames are cleared when
            // blocks merge.
            (state.kind() == Kind::Used && state.on_lru()).then_some(pfn)
        })
    }

    pub(crate) fn set_class(&mut self, pfn: u32, class: PageClass) {
        let state = self.core.frames.get(pfn);
        self.core.account(pfn, state.order(), state.class(), false);
        self.core.frames.set(pfn, state.with_class(class));
        self.core.account(pfn, state.order(), class, true);
    }

    /// Background work of the kernel for `elapsed_ns` of simulated time: pressure averages,
    /// kswapd, kcompactd, the resizer.
    pub fn tick(&mut self, elapsed_ns: u64) {
        self.core.now_ns += elapsed_ns;
        self.core.psi.update(elapsed_ns);
        for region in [LOW, HIGH] {
            self.kswapd_run(region, elapsed_ns);
        }
        self.core.kcompactd_run(elapsed_ns);
        self.policy.tick(&mut self.core, elapsed_ns);
    }

    /// The metrics of the present state at the standard block sizes.
    pub fn metrics(&self) -> Metrics {
        self.tallies().finish(&Coverage::exact())
    }

    /// Per-block tallies of the present state, for metrics and memory maps.
    pub fn tallies(&self) -> MetricsBuilder {
        let mut builder = MetricsBuilder::new(&self.layout, &SizeList::standard());
        for b in 0..self.core.blocks.len() as u32 {
            let start = Pfn(self.first + (u64::from(b) << BLOCK_ORDER));
            builder.push_counts(start, &self.block_counts(b));
        }
        builder
    }

    /// Pages of each class in pageblock `b`.
    fn block_counts(&self, b: u32) -> [u16; CLASS_COUNT] {
        let core = &self.core;
        let mut counts = [0; CLASS_COUNT];
        if core.blocks[b as usize].giga {
            counts[PageClass::HugeTlb as usize] = BLOCK_PAGES as u16;
        } else if let Some(head) = core.cover(b) {
            counts[class_of(core.frames.get(head)) as usize] = BLOCK_PAGES as u16;
        } else {
            let mut uses = [0; State::USES];
            core.heads(b, |_, state| {
                uses[state.use_key()] += state.pages().min(BLOCK_PAGES) as u16;
            });
            for (key, &pages) in uses.iter().enumerate().filter(|(_, pages)| **pages > 0) {
                counts[class_of(State::of_use(key)) as usize] += pages;
            }
        }
        counts
    }

    /// Classes of the 512 frames of pageblock `b`.
    pub(crate) fn block_classes(&self, b: u32, out: &mut [PageClass]) {
        let core = &self.core;
        if core.blocks[b as usize].giga {
            out.fill(PageClass::HugeTlb);
            return;
        }
        if let Some(head) = core.cover(b) {
            out.fill(class_of(core.frames.get(head)));
            return;
        }
        let start = b << BLOCK_ORDER;
        core.heads(b, |pfn, state| {
            let from = (pfn - start) as usize;
            let to = (from + (1usize << state.order())).min(out.len());
            out[from..to].fill(class_of(state));
        });
    }
}

fn class_of(state: State) -> PageClass {
    match state.kind() {
        Kind::Interior => PageClass::Hole,
        Kind::Fixed | Kind::Used => state.class(),
        Kind::Free | Kind::Isolated => PageClass::Free,
        Kind::Pcp => PageClass::FreePcp,
    }
}

impl PageSource for Server {
    type Error = Infallible;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn for_each_chunk(
        &mut self,
        sink: &mut dyn FnMut(Pfn, &[PageClass]),
    ) -> Result<(), Infallible> {
        let mut classes = [PageClass::Hole; BLOCK_PAGES as usize];
        for b in 0..self.core.blocks.len() as u32 {
            self.block_classes(b, &mut classes);
            sink(Pfn(self.first + (u64::from(b) << BLOCK_ORDER)), &classes);
        }
        Ok(())
    }
}
