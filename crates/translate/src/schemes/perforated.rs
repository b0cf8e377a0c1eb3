// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perforated pages (ISCA 2020): 2 MB pages with 4 KB holes. The second-level TLB holds perforated
//! entries with an 8-bit filter and, on demand, 64-bit groups of the hole bitmap; the first level
//! only ever sees plain pages. Where a page is perforated is found by the look-up, never known.
//!
//! Beside the paper's form stand three variants of how the bitmap is asked: together with the
//! first look-up instead of after it, from an array of its own, or once for a page, whose 4 KB
//! translation is then kept in the second level.

use super::paging::install;
use super::scheme::{Refill, Scheme};
use crate::mmu::Fill;
use crate::os::space::Inval;
use crate::table::entry::{PageSize, bits, fragment, tlb_entry};
use crate::table::page_table::PageTable;
use crate::tlb::associative::AssocArray;
use crate::tlb::geometry::Geometry;
use crate::tlb::key::{asid_of, index_of, key_of, kind};
use crate::walk::descent::Fault;
use crate::walk::descent::descend;

/// Groups held by the array of the variant that has one: eight whole bitmaps.
const APART_GROUPS: u32 = 64;

struct Perforated {
    name: &'static str,
    /// A bitmap entry takes one more look-up of the second level.
    asks_again: bool,
    /// 4 KB translations that a bitmap has confirmed go into the second level too.
    keeps_pages: bool,
    /// Bitmap groups, if they do not share the second level.
    apart: Option<AssocArray>,
}

impl Perforated {
    const PAPER: Perforated = Perforated {
        name: "perforated",
        asks_again: true,
        keeps_pages: false,
        apart: None,
    };
}

/// Makes the scheme of the paper.
pub fn perforated() -> Box<dyn Scheme> {
    Box::new(Perforated::PAPER)
}

/// Makes the variant that looks for the bitmap entry together with the page.
pub fn perforated_parallel() -> Box<dyn Scheme> {
    Box::new(Perforated {
        name: "perforated-parallel",
        asks_again: false,
        ..Perforated::PAPER
    })
}

fn with_array() -> Perforated {
    let array = AssocArray::new(Geometry::full(APART_GROUPS), "bitmap array");
    Perforated {
        name: "perforated-apart",
        asks_again: false,
        apart: Some(array.expect("one set of any number of ways can be built")),
        ..Perforated::PAPER
    }
}

/// Makes the variant with an array for bitmap entries beside the second level, asked with it.
pub fn perforated_apart() -> Box<dyn Scheme> {
    Box::new(with_array())
}

/// Makes the variant that keeps the 4 KB translations a bitmap has confirmed.
pub fn perforated_keep() -> Box<dyn Scheme> {
    Box::new(Perforated {
        name: "perforated-keep",
        keeps_pages: true,
        ..Perforated::PAPER
    })
}

/// Makes the variant that keeps those translations and has an array for bitmap entries.
pub fn perforated_keep_apart() -> Box<dyn Scheme> {
    Box::new(Perforated {
        name: "perforated-keep-apart",
        keeps_pages: true,
        ..with_array()
    })
}

const FILTER: u64 = 0xff << bits::FILTER_SHIFT;

impl Scheme for Perforated {
    fn name(&self) -> &'static str {
        self.name
    }

    fn refill(&mut self, miss: &mut Refill<'_>) -> Result<Fill, Fault> {
        if let Some(fill) = miss.probe_l2() {
            return Ok(fill);
        }
        let block = index_of(miss.va, 21);
        let cached = miss
            .mmu
            .l2_array(PageSize::M2)
            .and_then(|l2| l2.get(kind::PERFORATED, block, miss.asid));
        let entry = match cached {
            Some(entry) => {
                miss.mmu.stats.l2_hits += 1;
                entry
            }
            None => {
                let walked = miss.walk()?;
                if walked.entry & bits::PERFORATED == 0 {
                    return Ok(install(miss, &walked));
                }
                let entry = tlb_entry(walked.entry, 2) | walked.entry & FILTER;
                if let Some(l2) = miss.mmu.l2_array(PageSize::M2) {
                    l2.put(kind::PERFORATED, block, miss.asid, entry);
                }
                entry
            }
        };
        self.resolve(miss, entry)
    }

    fn invalidate(&mut self, inval: &Inval, asid: u16) {
        let Some(groups) = &mut self.apart else {
            return;
        };
        if let Inval::Holes { va } = *inval {
            let index = index_of(va, 18);
            groups.remove(index, key_of(index, asid, kind::BITMAP));
        } else {
            groups.retain(|key, _| asid_of(key) != asid);
        }
    }
}

impl Perforated {
    /// Finds the 4 KB page of a perforated entry that `miss.va` lies in.
    fn resolve(&mut self, miss: &mut Refill<'_>, entry: u64) -> Result<Fill, Fault> {
        let index = miss.va >> 12 & 511;
        let plain = fragment(entry, miss.va, PageSize::M2, PageSize::K4);
        if entry >> bits::FILTER_SHIFT >> (index / 64) & 1 == 0 {
            miss.mmu.stats.filter_passes += 1;
            return Ok(Fill {
                size: PageSize::K4,
                entry: plain,
                done: miss.now,
            });
        }
        let group = self.bitmap_group(miss, entry, index)?;
        if group >> (index % 64) & 1 == 0 {
            if self.keeps_pages {
                miss.mmu.l2_install(miss.va, miss.asid, PageSize::K4, plain);
            }
            return Ok(Fill {
                size: PageSize::K4,
                entry: plain,
                done: miss.now,
            });
        }
        miss.mmu.stats.hole_walks += 1;
        let entry = match miss.host.as_deref_mut() {
            None => shadow_entry(miss)?,
            Some(host) => {
                let start = miss.port.walk_start(miss.now);
                let (entry, done) = host.hole(miss.mmu, miss.space, miss.va, start, miss.port)?;
                miss.mmu.stats.walk_cycles += done - start;
                miss.port.walk_end(start, done);
                miss.now = done;
                entry
            }
        };
        let entry = tlb_entry(entry, 1);
        miss.mmu.l2_install(miss.va, miss.asid, PageSize::K4, entry);
        Ok(Fill {
            size: PageSize::K4,
            entry,
            done: miss.now,
        })
    }

    /// The 64 bits of the hole bitmap around `miss.va`: from the second-level TLB (one more
    /// look-up) or from memory.
    fn bitmap_group(
        &mut self,
        miss: &mut Refill<'_>,
        entry: u64,
        index: u64,
    ) -> Result<u64, Fault> {
        let key = index_of(miss.va, 18);
        miss.mmu.stats.bitmap_lookups += 1;
        if self.asks_again {
            miss.now += miss.mmu.l2_time;
        }
        let asid = miss.asid;
        let own_key = key_of(key, asid, kind::BITMAP);
        let cached = match &mut self.apart {
            Some(groups) => groups.lookup(key, own_key).map(|(_, group)| group),
            None => miss
                .mmu
                .l2_array(PageSize::M2)
                .and_then(|l2| l2.get(kind::BITMAP, key, asid)),
        };
        if let Some(group) = cached {
            return Ok(group);
        }
        miss.mmu.stats.bitmap_loads += 1;
        let (group, done) = match miss.host.as_deref_mut() {
            None => {
                let frame = (entry & bits::FRAME) >> 21;
                let place = miss.space.bitmap_pa(frame, index);
                let (done, hit) = miss.port.read(place.ok_or(Fault::NotPresent)?, miss.now);
                miss.mmu.stats.refs_at[0][hit as usize] += 1;
                (miss.space.hole_map(frame)[index as usize / 64], done)
            }
            Some(host) => host.bitmap_group(miss.mmu, miss.space, miss.va, miss.now, miss.port)?,
        };
        miss.now = done;
        if let Some(groups) = &mut self.apart {
            groups.insert(key, own_key, group);
        } else if let Some(l2) = miss.mmu.l2_array(PageSize::M2) {
            l2.put(kind::BITMAP, key, asid, group);
        }
        Ok(group)
    }
}

/// Walks to the shadow L1 entry of a hole. The shadow lies beside the level-2 node, so that what
/// the page-walk cache knows of that node is enough: one reference in the common case.
fn shadow_entry(miss: &mut Refill<'_>) -> Result<u64, Fault> {
    let va = miss.va;
    let start = miss.port.walk_start(miss.now);
    let mut time = start + miss.mmu.pwc_time;
    let table = &mut miss.space.table;
    let (stats, port) = (&mut miss.mmu.stats, &mut *miss.port);
    let cached = miss.mmu.pwc.deepest(va, miss.asid, 3);
    let at = (va, miss.asid);
    let node = descend(table, &mut miss.mmu.pwc, at, cached, 2, |pa, level| {
        let (answered, hit) = port.read(pa, time);
        time = answered;
        stats.refs_by_level[level as usize] += 1;
        stats.refs_at[level as usize][hit as usize] += 1;
        Ok(())
    })?
    .node;
    let place = u64::from(node) << 9 | PageTable::slot(va, 2);
    let shadow = table.shadow(place).ok_or(Fault::NotPresent)?;
    let (done, hit) = miss.port.read(table.entry_pa(shadow, va, 1), time);
    miss.mmu.stats.refs_by_level[1] += 1;
    miss.mmu.stats.refs_at[1][hit as usize] += 1;
    let entry = table.entry(shadow, va, 1);
    miss.mmu.stats.walk_cycles += done - start;
    miss.port.walk_end(start, done);
    miss.now = done;
    if entry & bits::PRESENT == 0 {
        return Err(Fault::NotPresent);
    }
    Ok(entry)
}
