// SPDX-License-Identifier: MIT OR Apache-2.0
//! The toy scheme of the guide (docs/translation.md): a victim buffer behind the second level.

use ample_translate::*;

/// Keeps the last few page walks' results, whatever their page size.
#[derive(Default)]
struct VictimBuffer {
    entries: Vec<(u64, u16, Fill)>,
}

const ENTRIES: usize = 8;

impl Scheme for VictimBuffer {
    fn name(&self) -> &'static str {
        "victim"
    }

    fn refill(&mut self, miss: &mut Refill<'_>) -> Result<Fill, Fault> {
        if let Some(fill) = miss.probe_l2() {
            return Ok(fill);
        }
        let (va, asid) = (miss.va, miss.asid);
        let holds = |&(base, owner, fill): &(u64, u16, Fill)| {
            owner == asid && va & !(fill.size.bytes() - 1) == base
        };
        if let Some(&(_, _, fill)) = self.entries.iter().find(|e| holds(e)) {
            miss.mmu.stats.scheme_hits += 1;
            return Ok(Fill {
                done: miss.now,
                ..fill
            });
        }
        let walked = miss.walk()?;
        let size = walked.size();
        let entry = tlb_entry(walked.entry, walked.level);
        let fill = Fill {
            size,
            entry,
            done: walked.done,
        };
        miss.mmu.l2_install(va, asid, size, entry);
        self.entries.truncate(ENTRIES - 1);
        self.entries
            .insert(0, (va & !(size.bytes() - 1), asid, fill));
        Ok(fill)
    }

    fn invalidate(&mut self, _inval: &Inval, asid: u16) {
        // Coarse but correct: forget everything of the address space.
        self.entries.retain(|&(_, owner, _)| owner != asid);
    }
}

#[test]
fn the_toy_scheme_saves_walks_and_stays_correct() {
    let config = MmuConfig {
        l1d: vec![TlbArray::new(&[PageSize::K4], Geometry::full(4))],
        l2: vec![],
        ..presets::by_name("skylake").unwrap()
    };
    let frames = Box::new(IdealFrames::new(64 << 20));
    let toy = Box::new(VictimBuffer::default());
    let mut engine = Engine::new(&config, toy, frames, 1).unwrap();
    engine.premap(1 << 30, 8 << 12, PageSize::K4).unwrap();
    for round in 0..10u64 {
        for page in 0..8u64 {
            let va = (1 << 30) + (page << 12) + round;
            let pa = engine
                .translate(va, Intent::Read, 0, &mut NoMemory)
                .unwrap()
                .pa;
            assert_eq!(pa, engine.space().lookup(va).unwrap().pa);
        }
    }
    // Eight pages in a cycle never hit four entries, but do hit the eight of the buffer.
    assert_eq!(engine.mmu.stats.walks_data, 8);
    assert_eq!(engine.mmu.stats.scheme_hits, 72);
    let (space, frames) = engine.space_and_frames();
    space.unmap(1 << 30, true, frames).unwrap();
    engine.sync();
    assert!(
        engine
            .translate(1 << 30, Intent::Read, 0, &mut NoMemory)
            .is_err()
    );
}
