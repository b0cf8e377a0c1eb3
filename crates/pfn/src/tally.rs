// SPDX-License-Identifier: MIT OR Apache-2.0
//! From page classes to per-block tallies: one pass over the pages, no page kept.

use crate::class::{CLASS_COUNT, CLASSES, Definition, Mobility, PageClass, Source};
use crate::{Layout, Order, PAGEBLOCK_ORDER, Pfn, PfnRange, SizeList};

/// What the metrics need to know about one aligned base block (2 MB unless smaller block sizes
/// were asked for). Counts are 4 KB pages; a block has at most 512.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BlockTally {
    /// Frames without memory.
    pub hole: u16,
    /// Free frames that can merge with their buddies.
    pub mergeable_free: u16,
    /// All free frames, per-CPU lists included.
    pub free: u16,
    /// Certainly unmovable frames under K, P and O.
    pub unmovable: [u16; 3],
    /// Frames that K and O cannot decide.
    pub ambiguous: u16,
    /// Bit `i` set: a page of `Source::ALL[i]` is in the block.
    pub sources: u8,
    /// Index of the block's zone in the layout; [`BlockTally::NO_ZONE`] if in none.
    pub zone: u8,
}

/// What a block looks like from afar: the states of the memory map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockState {
    /// No memory.
    Hole,
    /// Every frame is free and mergeable.
    Free,
    /// No unmovable page: a huge page now or after compaction.
    Movable,
    /// Movable or free pages held hostage by at least one unmovable page.
    Polluted,
    /// Nothing but unmovable pages (and holes).
    Unmovable,
}

impl BlockTally {
    /// Zone index of a block that lies in no zone.
    pub const NO_ZONE: u8 = u8::MAX;

    /// State under a definition; ambiguous pages count as unmovable.
    pub fn state(&self, definition: Definition, block_pages: u16) -> BlockState {
        let present = block_pages - self.hole;
        let held = self.unmovable_high(definition);
        if present == 0 {
            BlockState::Hole
        } else if self.mergeable_free == block_pages {
            BlockState::Free
        } else if held == 0 {
            BlockState::Movable
        } else if held < present {
            BlockState::Polluted
        } else {
            BlockState::Unmovable
        }
    }

    /// Most pages that can be unmovable under `definition`, in pages.
    pub fn unmovable_high(&self, definition: Definition) -> u16 {
        let ambiguous = if definition == Definition::P {
            0
        } else {
            self.ambiguous
        };
        self.unmovable[definition as usize] + ambiguous
    }

    #[inline]
    fn add(&mut self, class: PageClass, pages: u16) {
        let share = &SHARES[class as usize];
        self.hole += pages * share.hole;
        self.mergeable_free += pages * share.mergeable_free;
        self.free += pages * share.free;
        for (total, count) in self.unmovable.iter_mut().zip(share.unmovable) {
            *total += pages * count;
        }
        self.ambiguous += pages * share.ambiguous;
        self.sources |= share.sources;
    }
}

/// What a page of each class adds to a tally: counts of 0 and 1. A scan adds a run in a few
/// nanoseconds with it.
static SHARES: [BlockTally; CLASS_COUNT] = shares();

const fn shares() -> [BlockTally; CLASS_COUNT] {
    let mut shares = [BlockTally {
        hole: 0,
        mergeable_free: 0,
        free: 0,
        unmovable: [0; 3],
        ambiguous: 0,
        sources: 0,
        zone: BlockTally::NO_ZONE,
    }; CLASS_COUNT];
    let mut id = 0;
    while id < CLASS_COUNT {
        let class = CLASSES[id].0;
        let share = &mut shares[id];
        share.hole = matches!(class, PageClass::Hole) as u16;
        share.mergeable_free = class.is_mergeable_free() as u16;
        share.free = class.is_free() as u16;
        let mut definition = 0;
        while definition < share.unmovable.len() {
            let verdict = class.verdict(Definition::ALL[definition]);
            share.unmovable[definition] = matches!(verdict, Mobility::Unmovable) as u16;
            definition += 1;
        }
        let verdict = class.verdict(Definition::K);
        share.ambiguous = matches!(verdict, Mobility::Ambiguous) as u16;
        let mut bit = 0;
        while bit < Source::ALL.len() {
            if class.source() as u8 == Source::ALL[bit] as u8 {
                share.sources = 1 << bit;
            }
            bit += 1;
        }
        id += 1;
    }
    shares
}

/// Anything that can say what each frame of a machine is used for.
pub trait PageSource {
    /// What can go wrong while reading.
    type Error;

    /// Nodes and zones.
    fn layout(&self) -> &Layout;

    /// Calls `sink` with the classes of consecutive frames, in ascending order. Frames that are
    /// never passed are holes.
    ///
    /// # Errors
    /// Whatever reading the source can meet.
    fn for_each_chunk(
        &mut self,
        sink: &mut dyn FnMut(Pfn, &[PageClass]),
    ) -> Result<(), Self::Error>;

    /// Pushes every frame into `builder`. Sources that keep runs of one class push these.
    ///
    /// # Errors
    /// Whatever reading the source can meet.
    fn tally(&mut self, builder: &mut MetricsBuilder) -> Result<(), Self::Error> {
        self.for_each_chunk(&mut |pfn, classes| builder.push(pfn, classes))
    }
}

/// Collects page classes into tallies; [`MetricsBuilder::finish`] turns them into metrics.
#[derive(Clone, Debug)]
pub struct MetricsBuilder {
    pub(crate) layout: Layout,
    pub(crate) sizes: Vec<Order>,
    pub(crate) base: Order,
    pub(crate) first: Pfn,
    pub(crate) blocks: Vec<BlockTally>,
    /// Pages of each class in each zone (the last row: in no zone).
    pub(crate) zone_classes: Vec<[u64; CLASS_COUNT]>,
}

impl MetricsBuilder {
    /// A builder in which every frame of the layout is still a hole.
    pub fn new(layout: &Layout, sizes: &SizeList) -> MetricsBuilder {
        let base = sizes.orders()[0].min(PAGEBLOCK_ORDER);
        let span = layout.span();
        let first = span.start.align_down(base);
        let count = (span.end.align_up(base).0 - first.0) >> base.0;
        let empty = BlockTally {
            hole: base.pages() as u16,
            zone: BlockTally::NO_ZONE,
            ..BlockTally::default()
        };
        let mut blocks = vec![empty; count as usize];
        // A base block that two zones share belongs to the first; Linux aligns zones to
        // pageblocks, so that happens only in made-up layouts.
        for (index, zone) in layout.zones().iter().enumerate().rev() {
            let from = (zone.span.start.align_down(base).0 - first.0) >> base.0;
            let to = (zone.span.end.align_up(base).0 - first.0) >> base.0;
            for block in &mut blocks[from as usize..to as usize] {
                block.zone = u8::try_from(index).unwrap_or(BlockTally::NO_ZONE);
            }
        }
        MetricsBuilder {
            layout: layout.clone(),
            sizes: sizes.orders().to_vec(),
            base,
            first,
            blocks,
            zone_classes: vec![[0; CLASS_COUNT]; layout.zones().len() + 1],
        }
    }

    /// Adds the classes of consecutive frames from `start`. Each frame may be pushed once;
    /// frames outside the layout are ignored.
    pub fn push(&mut self, start: Pfn, classes: &[PageClass]) {
        let given = PfnRange::new(start, Pfn(start.0 + classes.len() as u64));
        let covered = PfnRange::new(
            self.first,
            Pfn(self.first.0 + ((self.blocks.len() as u64) << self.base.0)),
        );
        let range = given.intersect(covered);
        let mut rest =
            &classes[(range.start.0.saturating_sub(start.0) as usize).min(classes.len())..];
        rest = &rest[..range.pages() as usize];
        let mut pfn = range.start;
        while !rest.is_empty() {
            let block_end = Pfn(pfn.align_down(self.base).0 + self.base.pages());
            let take = ((block_end.0 - pfn.0) as usize).min(rest.len());
            let (part, tail) = rest.split_at(take);
            self.push_within_block(((pfn.0 - self.first.0) >> self.base.0) as usize, part);
            rest = tail;
            pfn = block_end;
        }
    }

    /// Adds consecutive frames of one class. Each frame may be pushed once; frames outside the
    /// layout are ignored.
    pub fn push_run(&mut self, range: PfnRange, class: PageClass) {
        let end = Pfn(self.first.0 + ((self.blocks.len() as u64) << self.base.0));
        let range = range.intersect(PfnRange::new(self.first, end));
        let mut pfn = range.start;
        // Once for nearly every run: most lie within a block.
        while pfn < range.end {
            let index = (pfn.0 - self.first.0) >> self.base.0;
            let block_end = Pfn(self.first.0 + ((index + 1) << self.base.0)).min(range.end);
            let pages = block_end.0 - pfn.0;
            let block = &mut self.blocks[index as usize];
            debug_assert!(u64::from(block.hole) >= pages, "a frame was pushed twice");
            block.hole -= pages as u16;
            block.add(class, pages as u16);
            let zone = usize::from(block.zone).min(self.zone_classes.len() - 1);
            self.zone_classes[zone][class as usize] += pages;
            pfn = block_end;
        }
    }

    fn push_within_block(&mut self, index: usize, part: &[PageClass]) {
        let block = &mut self.blocks[index];
        let zone = usize::from(block.zone).min(self.zone_classes.len() - 1);
        let totals = &mut self.zone_classes[zone];
        debug_assert!(
            usize::from(block.hole) >= part.len(),
            "a frame was pushed twice"
        );
        block.hole -= part.len() as u16;
        if let Some(class) = uniform_class(part) {
            block.add(class, part.len() as u16);
            totals[class as usize] += part.len() as u64;
            return;
        }
        let mut histogram = [0u16; CLASS_COUNT];
        for &class in part {
            histogram[class as usize] += 1;
        }
        add_counts(block, totals, &histogram);
    }

    /// Adds the frames of the base block that starts at `start`, of which only the number of each
    /// class is known: for sources that keep counts. Blocks outside the layout are ignored.
    ///
    /// # Panics
    /// If `start` is not the start of a base block, or the counts exceed its holes.
    pub fn push_counts(&mut self, start: Pfn, counts: &[u16; CLASS_COUNT]) {
        assert_eq!(
            start,
            start.align_down(self.base),
            "not the start of a base block"
        );
        let index = start
            .0
            .checked_sub(self.first.0)
            .map(|at| at >> self.base.0);
        let block = index.and_then(|index| self.blocks.get_mut(index as usize));
        if let Some(block) = block {
            let zone = usize::from(block.zone).min(self.zone_classes.len() - 1);
            let given: u16 = counts.iter().sum();
            assert!(given <= block.hole, "a frame was pushed twice");
            block.hole -= given;
            add_counts(block, &mut self.zone_classes[zone], counts);
        }
    }

    /// The tallies so far with the first frame and the order of the base blocks: what a memory
    /// map is drawn from.
    pub fn blocks(&self) -> (Pfn, Order, &[BlockTally]) {
        (self.first, self.base, &self.blocks)
    }

    /// Reads a whole source into a new builder.
    ///
    /// # Errors
    /// Whatever the source reports.
    pub fn collect<S: PageSource>(source: &mut S, sizes: &SizeList) -> Result<Self, S::Error> {
        let mut builder = MetricsBuilder::new(source.layout(), sizes);
        source.tally(&mut builder)?;
        Ok(builder)
    }
}

fn add_counts(
    block: &mut BlockTally,
    totals: &mut [u64; CLASS_COUNT],
    counts: &[u16; CLASS_COUNT],
) {
    for (class, &pages) in PageClass::all().zip(counts) {
        if pages > 0 {
            block.add(class, pages);
            totals[class as usize] += u64::from(pages);
        }
    }
}

/// The class that all pages share, if they do. Most blocks of a real machine are uniform, and
/// this test vectorises where the histogram cannot.
fn uniform_class(part: &[PageClass]) -> Option<PageClass> {
    let &first = part.first()?;
    let differs = |chunk: &[PageClass]| {
        chunk
            .iter()
            .fold(0u8, |acc, &class| acc | (class as u8 ^ first as u8))
            != 0
    };
    (!part.chunks(64).any(differs)).then_some(first)
}
