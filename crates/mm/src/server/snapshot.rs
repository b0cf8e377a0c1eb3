// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting a server from the pages of a real machine.

use super::model::{ServerError, ServerModel, SnapshotPages};
use crate::alloc::request::AllocRequest;
use crate::config::{Config, PolicyKind};
use crate::memory::{BLOCK_ORDER, BLOCK_PAGES, FrameKind, PoolId};
use crate::policy;
use ample_pfn::{
    BASE_PAGE_BYTES, CLASS_COUNT, Layout, MigrateType, PageClass, PageSource, is_movable,
};

/// What becomes of a frame of a snapshot.
enum Fate {
    Free,
    Fixed,
    Used,
}

fn fate(class: PageClass) -> Fate {
    match class {
        PageClass::Hole | PageClass::Reserved | PageClass::HwPoison | PageClass::Offline => {
            Fate::Fixed
        }
        class if class.is_free() => Fate::Free,
        _ => Fate::Used,
    }
}

/// Of the pages below the border of a machine that keeps kernel memory apart, at most this share is
/// movable: cached blocks of devices, which flags do not tell from files.
const LODGERS_RATIO: f64 = 0.125;

/// Which pages of a snapshot a server keeps where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// None: it would have placed them differently from boot on.
    None,
    /// All of them, each in its own frame.
    All,
    /// Kernel memory below this frame of the snapshot, and the others from there on.
    Apart(usize),
}

impl Kept {
    fn of(policy: PolicyKind, layout: &Layout, classes: &[PageClass]) -> Kept {
        match policy {
            PolicyKind::Linux => Kept::All,
            PolicyKind::Contiguitas | PolicyKind::ContiguitasHw => {
                apart(layout, classes).map_or(Kept::None, Kept::Apart)
            }
            _ => Kept::None,
        }
    }

    fn keeps(self, index: usize, class: PageClass) -> bool {
        match self {
            Kept::None => false,
            Kept::All => true,
            Kept::Apart(border) => is_movable(class) == (index >= border),
        }
    }
}

/// Where the border lies on a machine that keeps its kernel memory apart: after the last pageblock
/// with a page of it, in the lower half of memory.
fn apart(layout: &Layout, classes: &[PageClass]) -> Option<usize> {
    let kernel = |class: &PageClass| is_placed(*class) && !is_movable(*class);
    let last = classes.iter().rposition(kernel)? as u64;
    let first = layout.span().start.0;
    let border = ((first + last) / u64::from(BLOCK_PAGES) + 1) * u64::from(BLOCK_PAGES) - first;
    let below = classes.get(..border as usize)?;
    let placed = below.iter().filter(|&&class| is_placed(class)).count();
    let lodgers = placed - below.iter().filter(|class| kernel(class)).count();
    let is_apart = lodgers as f64 <= LODGERS_RATIO * placed as f64;
    (is_apart && below.len() <= classes.len() / 2).then_some(border as usize)
}

/// Whether a server that starts from a snapshot is given this page: it is neither free nor one
/// of those that stay where they are.
pub(crate) fn is_placed(class: PageClass) -> bool {
    matches!(fate(class), Fate::Used)
}

impl ServerModel {
    /// A server that holds the pages of a snapshot: `classes[i]` is the use of frame `i` of the
    /// layout's span. Under `linux` every page lies where the snapshot has it, and so it does
    /// under Contiguitas on a machine whose kernel memory is apart already; otherwise policies
    /// would have placed pages differently from boot on, so they are given the same pages, kernel
    /// memory first, and place them themselves. Firmware, holes and reserved memory stay where they
    /// are under all of them.
    ///
    /// # Errors
    /// [`ServerError`] when the sizes do not fit.
    pub fn from_pages(
        config: &Config,
        layout: &Layout,
        classes: &[PageClass],
    ) -> Result<ServerModel, ServerError> {
        let mut server = ServerModel::before_pages(config, layout, classes)?;
        let pools: Vec<_> = (0..CLASS_COUNT).map(|_| server.new_pool()).collect();
        server.set_shrinkable(pools[PageClass::SlabReclaimable as usize]);
        server.place_pages(classes, |server, _, class, pfn| match pfn {
            Some(pfn) if matches!(class, PageClass::File | PageClass::LruOther) => {
                server.kernel.cache(pfn);
            }
            Some(pfn) => server.kernel.give(pools[class as usize], pfn),
            None => {}
        });
        server.snapshot = SnapshotPages {
            pools: PageClass::all().zip(pools).collect(),
            placed: classes.iter().filter(|&&class| is_placed(class)).count() as u64,
        };
        Ok(server)
    }

    /// The pages of the snapshot; none when the server booted, or when they were taken before.
    pub(crate) fn take_snapshot(&mut self) -> SnapshotPages {
        std::mem::take(&mut self.snapshot)
    }

    /// Gives all blocks of one pool to another.
    pub(crate) fn move_entries(&mut self, from: PoolId, to: PoolId) {
        while let Some(last) = self.kernel.pools.len(from).checked_sub(1) {
            let block = self.kernel.take_from(from, last);
            self.kernel.give(to, block);
        }
    }

    /// The machine of a snapshot with what stays where it is, and the rest of memory free:
    /// [`ServerModel::place_pages`] must follow.
    pub(crate) fn before_pages(
        config: &Config,
        layout: &Layout,
        classes: &[PageClass],
    ) -> Result<ServerModel, ServerError> {
        let span = layout.span();
        if span.pages() != classes.len() as u64 {
            return Err(ServerError::WrongLength {
                given: classes.len() as u64,
                expected: span.pages(),
            });
        }
        let bytes = span.pages() * BASE_PAGE_BYTES;
        let policy = policy::build(&config.policy);
        let mut server = ServerModel::bare(config, policy, layout.clone(), bytes)?;
        let offset = server.offset();
        let kernel = |class: &&PageClass| is_placed(**class) && !is_movable(**class);
        let boot_pages = classes.iter().filter(kernel).count() as u64;
        let kept = Kept::of(server.policy(), layout, classes);
        server.place_fixed(classes, offset);
        if kept == Kept::All {
            server.type_blocks(classes, offset);
        }
        server.policy.boot(&mut server.kernel, boot_pages);
        if let Kept::Apart(border) = kept {
            server.set_border(offset + border as u32);
        }
        server.release_free(classes, offset, kept);
        Ok(server)
    }

    /// Moves the border before any memory is handed over.
    fn set_border(&mut self, border: u32) {
        self.kernel.set_border(border);
        let zone = &mut self.kernel.zone;
        for b in 0..zone.block_count() {
            zone.set_type(
                b,
                match b < zone.border_block() {
                    true => MigrateType::Unmovable,
                    false => MigrateType::Movable,
                },
            );
        }
    }

    /// Number in the model of the first frame of the layout.
    pub(super) fn offset(&self) -> u32 {
        (self.layout().span().start.0 - self.first_frame()) as u32
    }

    /// Places the pages of a snapshot, kernel memory first. `keep` is told of each one: its
    /// number among the placed pages in the order of the snapshot, its class, and where it lies
    /// now, or `None` if it found no place.
    pub(crate) fn place_pages(
        &mut self,
        classes: &[PageClass],
        mut keep: impl FnMut(&mut ServerModel, u32, PageClass, Option<u32>),
    ) {
        let offset = self.offset();
        let kept = Kept::of(self.policy(), self.layout(), classes);
        for movable in [false, true] {
            let placed = classes.iter().enumerate().filter(|(_, c)| is_placed(**c));
            for (number, (index, &class)) in placed.enumerate() {
                if is_movable(class) != movable {
                    continue;
                }
                let pfn = if kept.keeps(index, class) {
                    self.kernel.zone.set_used(offset + index as u32, 0, class);
                    Some(offset + index as u32)
                } else {
                    self.alloc(&AllocRequest::new(class), 0)
                };
                keep(self, number as u32, class, pfn);
            }
        }
    }

    fn place_fixed(&mut self, classes: &[PageClass], offset: u32) {
        let zone = &mut self.kernel.zone;
        for pfn in 0..zone.frames().len() {
            let index = pfn.wrapping_sub(offset) as usize;
            let class = *classes.get(index).unwrap_or(&PageClass::Hole);
            if matches!(fate(class), Fate::Fixed) {
                zone.set_fixed(pfn, class);
            }
        }
    }

    /// A block's type is that of most of its pages in use.
    fn type_blocks(&mut self, classes: &[PageClass], offset: u32) {
        let zone = &mut self.kernel.zone;
        let mut counts = vec![[0u16; 3]; zone.block_count() as usize];
        for (index, &class) in classes.iter().enumerate() {
            if matches!(fate(class), Fate::Used) {
                let b = (offset + index as u32) >> BLOCK_ORDER;
                counts[b as usize][MigrateType::of(class) as usize] += 1;
            }
        }
        for (b, [unmovable, movable, reclaimable]) in (0..).zip(counts) {
            let mt = if unmovable > movable.max(reclaimable) {
                MigrateType::Unmovable
            } else if reclaimable > movable {
                MigrateType::Reclaimable
            } else {
                MigrateType::Movable
            };
            zone.set_type(b, mt);
        }
    }

    /// Hands over what is free: where pages keep their places, all that is free in the
    /// snapshot; else all that is not fixed.
    fn release_free(&mut self, classes: &[PageClass], offset: u32, kept: Kept) {
        let count = self.frames();
        let is_free = |server: &ServerModel, pfn: u32| {
            if server.kernel.zone.state(pfn).kind() == FrameKind::Fixed {
                return false;
            }
            let index = pfn.wrapping_sub(offset) as usize;
            let is_kept = |&class: &PageClass| is_placed(class) && kept.keeps(index, class);
            kept == Kept::None || classes.get(index).is_some_and(|class| !is_kept(class))
        };
        let mut pfn = 0;
        while pfn < count {
            let start = pfn;
            let block_end = (start | (BLOCK_PAGES - 1)) + 1;
            while pfn < block_end && is_free(self, pfn) {
                pfn += 1;
            }
            self.kernel.zone.release(start, pfn);
            if pfn < block_end {
                pfn += 1;
            }
        }
    }
}
