// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configurations that are checked.

use super::config::{CheckConfig, DeadLine};
use super::state::CacheRoom;
use crate::protocol::Design::{Cacheable, NonCacheable};
use crate::protocol::{Design, PlantedFault, SliceHash};

/// The same machine in both designs.
fn both(names: [&'static str; 2], change: impl Fn(&mut CheckConfig)) -> [CheckConfig; 2] {
    let make = |design, name| {
        let mut config = CheckConfig::new(name, design);
        change(&mut config);
        config
    };
    [make(NonCacheable, names[0]), make(Cacheable, names[1])]
}

/// Small enough for every test run; the smallest first.
pub fn quick() -> Vec<CheckConfig> {
    let mut all = one_core();
    all.extend(both(["nc-nic", "c-nic"], nic));
    let mut config = CheckConfig::new("nc-unannounced", NonCacheable);
    nic(&mut config);
    (config.rules.announce, config.rules.mark_entries) = (false, 0);
    all.push(config);
    // Source and destination of every line are at home in different slices.
    all.extend(both(["nc-crossed", "c-crossed"], crossed));
    all.extend(both(["nc-crossed-window", "c-crossed-window"], |c| {
        crossed(c);
        c.rules.copy_window = 2;
        c.rules.parallel_slices = true;
    }));
    all.extend(both(["nc-2cores", "c-2cores"], |c| {
        c.dead_line = Some(DeadLine::Modified);
    }));
    all
}

/// Machines of one core.
fn one_core() -> Vec<CheckConfig> {
    let mut all = Vec::new();
    let mut config = CheckConfig::new("nc-dead-shared", NonCacheable);
    (config.rules.cores, config.dead_line) = (1, Some(DeadLine::Shared));
    all.push(config);
    // The host's function is reset at any time.
    all.extend(both(["nc-reset", "c-reset"], |c| {
        c.rules.cores = 1;
        (c.reset, c.evictions) = (true, false);
    }));
    // Accesses that come while their line is waited for.
    all.extend(both(["nc-joined", "c-joined"], |c| {
        c.rules.cores = 1;
        (c.accesses, c.mshrs) = (2, 3);
    }));
    // The same where the line may come shared: what joined a load and stores asks once more.
    all.extend(both(["nc-joined-2cores", "c-joined-2cores"], |c| {
        c.evictions = false;
        (c.accesses, c.mshrs) = (2, 3);
    }));
    all.extend(both(["nc-3slices", "c-3slices"], |c| {
        c.rules.cores = 1;
        c.rules.slices = 3;
        c.rules.page_lines = 2;
        c.evictions = false;
    }));
    // A device without a TLB, and one whose requests for translations are answered late.
    all.extend(both(["nc-no-device-tlb", "c-no-device-tlb"], |c| {
        nic(c);
        (c.device_tlb, c.evictions) = (false, false);
    }));
    all.extend(both(["nc-late-translation", "c-late-translation"], |c| {
        nic(c);
        (c.late_translations, c.evictions) = (true, false);
    }));
    all.extend(few_entries());
    all
}

/// Machines of one core, most of them with more of everything.
fn few_entries() -> Vec<CheckConfig> {
    let mut all = Vec::new();
    // A core that runs out of miss-status entries, and of room: one line goes for the next.
    all.extend(both(["nc-scarce", "c-scarce"], |c| {
        c.rules.cores = 1;
        c.rules.page_lines = 2;
        (c.accesses, c.mshrs, c.evictions) = (2, 2, false);
        c.room = CacheRoom::One;
    }));
    all.extend(both(["nc-late-answers", "c-late-answers"], |c| {
        c.rules.cores = 1;
        c.prompt_answers = false;
        c.symmetry = false;
    }));
    // Two of a slice's three lines on their way at once, to its own slice or the other.
    all.extend(both(["nc-window", "c-window"], |c| {
        c.rules.cores = 1;
        c.rules.page_lines = 3;
        c.rules.hash = SliceHash::Gray;
        c.rules.copy_window = 2;
        c.evictions = false;
    }));
    // Cores flush lines that move, and directories take them back for want of room.
    all.extend(both(["nc-flush", "c-flush"], flushing));
    all.extend(both(["nc-recall", "c-recall"], |c| {
        c.rules.cores = 1;
        (c.recalls, c.dead_line) = (true, Some(DeadLine::Modified));
    }));
    // A slice is taken offline, before, between or after two migrations of a page.
    all.extend(both(["nc-offline", "c-offline"], |c| {
        c.rules.cores = 1;
        (c.offline, c.second_move) = (true, true);
    }));
    // One of the pages is a guest's.
    all.extend(both(["nc-guest", "c-guest"], |c| {
        two_pages(c);
        (c.guest, c.evictions) = (true, false);
        (c.rules.slices, c.rules.table_entries) = (1, 2);
        // A mark for each page.
        (c.rules.mark_entries, c.mshrs) = (2, 3);
    }));
    all.extend(both(["nc-2pages", "c-2pages"], |c| {
        two_pages(c);
        c.evictions = false;
    }));
    all.extend(both(["nc-1slice", "c-1slice"], |c| {
        nic(c);
        c.rules.hash = SliceHash::Page;
    }));
    // The page goes back to the frame that it has left.
    all.extend(both(["nc-again", "c-again"], again));
    all.extend(both(["nc-parallel", "c-parallel"], |c| {
        c.rules.cores = 1;
        c.rules.page_lines = 2;
        c.rules.parallel_slices = true;
    }));
    all
}

fn crossed(config: &mut CheckConfig) {
    config.rules.cores = 1;
    config.rules.page_lines = 2;
    config.rules.hash = SliceHash::Gray;
    config.dead_line = Some(DeadLine::Modified);
}

/// Everything: minutes, and gigabytes for the largest.
pub fn full() -> Vec<CheckConfig> {
    let mut all = quick();
    all.extend(both(["nc-crossed-nic", "c-crossed-nic"], |c| {
        crossed(c);
        (c.nic, c.evictions) = (true, false);
    }));
    all.extend(both(["nc-2cores-nic", "c-2cores-nic"], |c| {
        nic(c);
        c.rules.cores = 2;
        c.evictions = false;
    }));
    all.extend(both(["nc-2cores-crossed", "c-2cores-crossed"], |c| {
        crossed(c);
        (c.rules.cores, c.evictions) = (2, false);
    }));
    all.extend(both(["nc-3cores", "c-3cores"], |c| {
        c.rules.cores = 3;
        c.evictions = false;
    }));
    // Three slices copy at once: with evictions, and with a NIC.
    all.extend(both(
        ["nc-3slices-evictions", "c-3slices-evictions"],
        three_slices,
    ));
    all.extend(both(["nc-3slices-nic", "c-3slices-nic"], |c| {
        three_slices(c);
        (c.nic, c.evictions) = (true, false);
    }));
    // In the non-cacheable design only: the other's graph does not end in a quarter of an hour.
    let mut config = CheckConfig::new("nc-2cores-crossed-nic", NonCacheable);
    crossed(&mut config);
    (config.rules.cores, config.nic, config.evictions) = (2, true, false);
    all.push(config);
    all
}

fn three_slices(config: &mut CheckConfig) {
    config.rules.cores = 1;
    (config.rules.slices, config.rules.page_lines) = (3, 2);
    (config.rules.parallel_slices, config.rules.copy_window) = (true, 2);
}

/// A core with two accesses under way, flush instructions among them.
fn flushing(config: &mut CheckConfig) {
    config.rules.cores = 1;
    config.flushes = true;
    (config.accesses, config.mshrs) = (2, 3);
}

/// Too large to be explored otherwise than by `sweep`.
pub fn large() -> Vec<CheckConfig> {
    let names = ["nc-3cores-crossed-nic", "c-3cores-crossed-nic"];
    let large = both(names, |c| {
        crossed(c);
        (c.rules.cores, c.nic, c.evictions) = (3, true, false);
        c.prompt_data = true;
    });
    large.into()
}

fn nic(config: &mut CheckConfig) {
    config.rules.cores = 1;
    config.nic = true;
    config.dead_line = Some(DeadLine::Modified);
}

/// Each page moves twice, and any message may be late.
fn again(config: &mut CheckConfig) {
    config.rules.cores = 1;
    config.second_move = true;
    config.prompt_answers = false;
    config.symmetry = false;
}

/// Two migrations at once, one table entry and a queue for one descriptor: one of them meets a
/// full queue or a full table.
fn two_pages(config: &mut CheckConfig) {
    config.rules.cores = 1;
    config.pages = 2;
    config.rules.table_entries = 1;
    config.rules.queue_entries = 1;
}

/// For each planted fault, the smallest machine on which it does harm.
pub fn with_faults() -> Vec<(PlantedFault, CheckConfig)> {
    let machine = |design: Design, fault: PlantedFault| {
        let mut config = CheckConfig::new("fault", design).with_fault(fault);
        nic(&mut config);
        config.symmetry = false;
        config.late_translations = fault == PlantedFault::TranslationAfterInvalidation;
        config.reset = fault == PlantedFault::ResetDropsTable;
        config.device_tlb = fault != PlantedFault::IotlbDoesNotDrain;
        config.offline = fault == PlantedFault::OfflineWhileMoving;
        config.recalls = fault == PlantedFault::RecallKeepsCopies;
        if fault == PlantedFault::FlushOneName {
            config.nic = false;
            flushing(&mut config);
        }
        if fault == PlantedFault::ClearBeforeForwardsServed {
            again(&mut config);
        }
        (fault, config)
    };
    crate::protocol::FAULTS
        .iter()
        .flat_map(|&fault| {
            let designs: &[Design] = match fault {
                PlantedFault::EarlyClear
                | PlantedFault::NoNack
                | PlantedFault::ForgetUnmark
                | PlantedFault::UnmarkBeforeMarked => &[NonCacheable],
                PlantedFault::SkipOppositeCheck
                | PlantedFault::SkipCleanOwner
                | PlantedFault::LoseHandover
                | PlantedFault::PteBeforeInstall
                | PlantedFault::CopyBeforeTlbsClean
                | PlantedFault::AbortWithoutFlush
                | PlantedFault::FlushOneName
                | PlantedFault::ClearBeforeForwardsServed
                | PlantedFault::ClearBeforeAllFlushed => &[Cacheable],
                _ => &[NonCacheable, Cacheable],
            };
            designs.iter().map(move |&design| machine(design, fault))
        })
        .collect()
}
