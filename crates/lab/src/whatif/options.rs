// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an operator can do about contiguity, the least effort first.

use ample_mm::{PolicyKind, Tuning};
use serde::Serialize;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Leave the machine as it is.
    Nothing,
    /// `vm.compaction_proactiveness=100`.
    Compaction,
    /// `vm.min_free_kbytes` ten times as large.
    MinFree,
    /// Transparent huge pages for all anonymous memory.
    Thp,
    /// An allocator that fills huge pages.
    Allocator,
    /// A reserve for 1 GB pages, `hugetlb_cma=`.
    HugetlbCma,
    /// `kernelcore=` or `movable_node`.
    Kernelcore,
    /// `vm.defrag_mode=1`, in its strict form.
    DefragMode,
    /// Contiguitas for Linux.
    Contiguitas,
    /// Contiguitas with hardware that moves unmovable pages.
    Hardware,
}

/// Where the numbers of an option come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Basis {
    /// The server model under this policy and these settings.
    Simulated(PolicyKind, Tuning),
    /// The run of stock Linux with other huge pages.
    Computed,
    /// Measured apart from this machine.
    Elsewhere,
}

/// What is known of a choice before anything is simulated.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// The choice itself.
    pub choice: Choice,
    /// Name in tables.
    pub name: &'static str,
    /// How it is done, and from when on it works.
    pub how: &'static str,
    /// What it takes.
    pub cost: &'static str,
    /// What can go wrong.
    pub risk: &'static str,
    /// Where its numbers come from.
    pub basis: Basis,
}

/// All options, the least effort first.
pub const OPTIONS: [OptionInfo; 10] = [
    OptionInfo {
        choice: Choice::Nothing,
        name: "do nothing",
        how: "stock Linux as it is",
        cost: "none",
        risk: "1 GB pages are gone until the next boot once their blocks are spoiled",
        basis: Basis::Simulated(PolicyKind::Linux, Tuning::STOCK),
    },
    OptionInfo {
        choice: Choice::Compaction,
        name: "proactive compaction",
        how: "sysctl vm.compaction_proactiveness=100 (compact_memory does it once); at run time",
        cost: "processor time of kcompactd",
        risk: "latency while pages move; it moves movable pages only and cleans no spoiled block",
        basis: Basis::Simulated(
            PolicyKind::Linux,
            Tuning {
                compaction_proactiveness: 100,
                ..Tuning::STOCK
            },
        ),
    },
    OptionInfo {
        choice: Choice::MinFree,
        name: "larger reserve",
        how: "sysctl vm.min_free_kbytes ten times as large (1 % of 64 GB); at run time",
        cost: "that memory",
        risk: "earlier reclaim",
        basis: Basis::Simulated(
            PolicyKind::Linux,
            Tuning {
                min_free_factor: 10,
                ..Tuning::STOCK
            },
        ),
    },
    OptionInfo {
        choice: Choice::Thp,
        name: "THP everywhere",
        how: "echo always > /sys/kernel/mm/transparent_hugepage/enabled; at run time",
        cost: "memory of 2 MB pages that are touched in part",
        risk: "larger programs and slower faults; the gain is an upper bound: all memory that can \
               be in 2 MB pages is",
        basis: Basis::Computed,
    },
    OptionInfo {
        choice: Choice::Allocator,
        name: "hugepage allocator",
        how: "ample malloc run -- PROGRAM; at the program's next start",
        cost: "none to a few per cent of heap",
        risk: "another allocator in production; results/use.md has its figures",
        basis: Basis::Elsewhere,
    },
    OptionInfo {
        choice: Choice::HugetlbCma,
        name: "hugetlb_cma=",
        how: "boot parameter hugetlb_cma=SIZE; at the next boot",
        cost: "its size is closed to the kernel's own memory",
        risk: "serves 1 GB pages only, of a size chosen before",
        basis: Basis::Computed,
    },
    OptionInfo {
        choice: Choice::Kernelcore,
        name: "kernelcore=",
        how: "boot parameter kernelcore=12% or movable_node; at the next boot",
        cost: "the split is fixed",
        risk: "kernel memory that outgrows its part is refused; no 1 GB page comes out of \
               ZONE_MOVABLE",
        basis: Basis::Simulated(PolicyKind::Static, Tuning::STOCK),
    },
    OptionInfo {
        choice: Choice::DefragMode,
        name: "defrag_mode",
        how: "sysctl vm.defrag_mode=1; Linux 6.15 and later",
        cost: "reclaim and compaction before a block is shared",
        risk: "stalls under pressure; simulated in its strictest form, the rule of Illuminator",
        basis: Basis::Simulated(PolicyKind::Illuminator, Tuning::STOCK),
    },
    OptionInfo {
        choice: Choice::Contiguitas,
        name: "Contiguitas",
        how: "a kernel with the series of kernel/; at the next boot",
        cost: "a kernel of one's own",
        risk: "a research series on 6.12",
        basis: Basis::Simulated(PolicyKind::Contiguitas, Tuning::STOCK),
    },
    OptionInfo {
        choice: Choice::Hardware,
        name: "Contiguitas-HW",
        how: "a last-level cache that moves pages in use; exists as a simulation",
        cost: "new hardware",
        risk: "cannot be bought",
        basis: Basis::Simulated(PolicyKind::ContiguitasHw, Tuning::STOCK),
    },
];

impl Choice {
    /// What is known of it.
    pub fn info(self) -> &'static OptionInfo {
        // The order of the list is that of the enumeration, as a test shows.
        &OPTIONS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_the_choices() {
        for option in &OPTIONS {
            assert_eq!(option.choice.info().name, option.name);
        }
    }
}
