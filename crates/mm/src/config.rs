// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration of one simulated server.

use crate::memory::{HIGH, Marks};
use crate::policy::policy_ffi::ResizeParams;
use ample_pfn::PageClass;
use serde::{Deserialize, Serialize};

/// The memory managers that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// Linux 6.12.
    Linux,
    /// Never mixes migratetypes inside 2 MB (Illuminator).
    Illuminator,
    /// A fixed split (`kernelcore=`).
    Static,
    /// Contiguitas: two regions and a moving border.
    Contiguitas,
    /// Contiguitas with hardware that can move unmovable pages.
    ContiguitasHw,
}

impl PolicyKind {
    /// All policies, in the order in which they are printed.
    pub const ALL: [PolicyKind; 5] = [
        PolicyKind::Linux,
        PolicyKind::Illuminator,
        PolicyKind::Static,
        PolicyKind::Contiguitas,
        PolicyKind::ContiguitasHw,
    ];

    /// Name as printed and as accepted on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Linux => "linux",
            PolicyKind::Illuminator => "illuminator",
            PolicyKind::Static => "static",
            PolicyKind::Contiguitas => "contiguitas",
            PolicyKind::ContiguitasHw => "contiguitas-hw",
        }
    }

    /// The policy of this name, if there is one.
    pub fn from_name(name: &str) -> Option<PolicyKind> {
        PolicyKind::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Whether it confines unmovable pages below a border.
    pub fn confines(self) -> bool {
        matches!(self, PolicyKind::Contiguitas | PolicyKind::ContiguitasHw)
    }
}

/// Which unmovable pages the migration hardware may move while they are in use. Each class holds
/// those before it: the order is that of what their owners have to know about a move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HwClasses {
    /// Network buffers and user pages under long-term pins: devices and a page pool know them.
    Network,
    /// Also pages of page tables, which walkers read by physical address.
    PageTables,
    /// Also slab pages, whose objects are known by addresses of the direct map.
    Slab,
    /// All but the kernel's own text and what never was the allocator's.
    #[default]
    All,
}

impl HwClasses {
    /// All, from the fewest classes to the most.
    pub const ALL: [HwClasses; 4] = [
        HwClasses::Network,
        HwClasses::PageTables,
        HwClasses::Slab,
        HwClasses::All,
    ];

    /// The name in configurations and tables.
    pub fn name(self) -> &'static str {
        match self {
            HwClasses::Network => "network",
            HwClasses::PageTables => "page-tables",
            HwClasses::Slab => "slab",
            HwClasses::All => "all",
        }
    }

    /// Whether an unmovable page of this class can be moved.
    pub(crate) fn moves(self, class: PageClass) -> bool {
        let least = match class {
            PageClass::Network | PageClass::Pinned => HwClasses::Network,
            PageClass::PageTable => HwClasses::PageTables,
            PageClass::Slab | PageClass::SlabReclaimable => HwClasses::Slab,
            PageClass::KernelText => return false,
            _ => HwClasses::All,
        };
        self as u8 >= least as u8
    }
}

/// Declares [`Mechanisms`] with one named switch a field.
macro_rules! mechanisms {
    ($($(#[$doc:meta])* $field:ident = $name:literal;)+) => {
        /// The mechanisms of Contiguitas (§3.2), each of which can be switched off.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Mechanisms { $($(#[$doc])* pub $field: bool,)+ }

        impl Default for Mechanisms {
            fn default() -> Self { Mechanisms { $($field: true,)+ } }
        }

        impl Mechanisms {
            /// Names of the switches.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Everything on but the mechanisms of these names, joined by `+`; `None` if there is
            /// no such name.
            pub fn without(names: &str) -> Option<Mechanisms> {
                let mut all = Mechanisms::default();
                for name in names.split('+') {
                    match name {
                        $($name => all.$field = false,)+
                        _ => return None,
                    }
                }
                Some(all)
            }
        }
    };
}

mechanisms! {
    /// The border moves.
    resize = "resize";
    /// The size of a move comes from Algorithm 1 instead of watermarks alone.
    algorithm1 = "algorithm1";
    /// What Algorithm 1 gives is no more than what free pages lack, is looked at again on the way,
    /// and comes down while pages are to spare (`ctg_review_pages`: the kernel's rules, not the
    /// paper's).
    review = "review";
    /// Allocations prefer the end away from the border; long-lived ones the far end itself.
    placement_bias = "placement-bias";
    /// A page is moved below the border before it is pinned for long.
    migrate_before_pin = "migrate-before-pin";
    /// A kernel request that finds its region empty expands it before it reclaims.
    expand_before_reclaim = "expand-before-reclaim";
    /// An atomic request may claim the block at the border if it is free.
    emergency_claim = "emergency-claim";
    /// Pressure is accounted per region instead of for the machine.
    per_region_pressure = "per-region-pressure";
}

/// Whose parameters and rounds the resizer of Contiguitas has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resizer {
    /// The model's own: [`PolicyConfig::resize`], half of memory at most, a decision a second.
    Model,
    /// Those of the kernel series: parameters, maximum, low mark, back-off and times of
    /// `contiguitas_policy.h`, and a round for each request that waits.
    #[default]
    Kernel,
}

impl Resizer {
    /// Whether it is the one that nobody has to ask for.
    pub fn is_kernel(&self) -> bool {
        *self == Resizer::Kernel
    }
}

/// A policy with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyConfig {
    /// Which memory manager.
    pub kind: PolicyKind,
    /// Size of the low region as a share of memory: `kernelcore=` under `static`, the initial
    /// region under Contiguitas (paper: 4 GB of 64 GB).
    pub low_region_ratio: f64,
    /// Switches of Contiguitas; ignored by the others.
    pub mechanisms: Mechanisms,
    /// Tunables of Algorithm 1; ignored by the others and by the kernel's resizer.
    pub resize: ResizeParams,
    /// Whose rounds move the border; ignored by the others.
    #[serde(default, skip_serializing_if = "Resizer::is_kernel")]
    pub resizer: Resizer,
    /// What the hardware of `contiguitas-hw` moves; ignored by the others.
    #[serde(default)]
    pub hw_classes: HwClasses,
}

impl PolicyConfig {
    /// The defaults of a policy. `static` reserves an eighth of memory for the kernel: the
    /// paper's 7.6 % of unmovable pages with room for bursts.
    pub fn new(kind: PolicyKind) -> PolicyConfig {
        PolicyConfig {
            kind,
            low_region_ratio: match kind {
                PolicyKind::Static => 0.125,
                _ => 0.0625,
            },
            mechanisms: Mechanisms::default(),
            resize: ResizeParams::default(),
            resizer: Resizer::default(),
            hw_classes: HwClasses::default(),
        }
    }
}

/// Settings of Linux that an operator changes at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// `vm.compaction_proactiveness`, from 1 to 100.
    pub compaction_proactiveness: u64,
    /// `vm.min_free_kbytes` over its default.
    pub min_free_factor: u64,
}

impl Tuning {
    /// The defaults of 6.12.
    pub const STOCK: Tuning = Tuning {
        compaction_proactiveness: 20,
        min_free_factor: 1,
    };
}

/// How far the allocator goes for blocks of more than 32 KB (above `PAGE_ALLOC_COSTLY_ORDER`),
/// where the request may wait: HugeTLB pages, and huge pages that khugepaged makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostlyRequests {
    /// Up to four synchronous compactions a block, whether or not others failed before.
    Patient,
    /// As Linux 6.12: an asynchronous and a synchronous one, and neither of them while compaction
    /// is deferred after others that failed.
    #[default]
    Kernel,
}

impl CostlyRequests {
    /// Whether it is what nobody has to ask for.
    pub fn is_kernel(&self) -> bool {
        *self == CostlyRequests::Kernel
    }
}

/// One simulated server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Memory in bytes; rounded down to whole 4 MB.
    pub memory_bytes: u64,
    /// Memory manager.
    pub policy: PolicyConfig,
    /// Settings of Linux.
    pub tuning: Tuning,
    /// Seed of everything random in the server and its workload.
    pub seed: u64,
    /// CPUs with their own page lists.
    pub cpus: usize,
    /// Share of the page cache's reads and deletions that is simulated once memory is full, in
    /// `(0, 1]`; user and kernel memory are never thinned.
    pub event_ratio: f64,
    /// Watermarks of the machine that the server stands for, summed over its zones. `None`: steps
    /// of 0.1 % of memory, as on 64 GB; smaller machines keep a larger share free
    /// (`set_recommended_min_free_kbytes`, `mm/khugepaged.c`, 6.12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
    /// How far the allocator goes for large blocks.
    #[serde(default, skip_serializing_if = "CostlyRequests::is_kernel")]
    pub costly: CostlyRequests,
}

impl Config {
    /// 64 GB under `kind`, 8 CPUs, seed 1.
    pub fn new(kind: PolicyKind) -> Config {
        Config {
            memory_bytes: 64 << 30,
            policy: PolicyConfig::new(kind),
            tuning: Tuning::STOCK,
            seed: 1,
            cpus: 8,
            event_ratio: 1.0,
            marks: None,
            costly: CostlyRequests::default(),
        }
    }
}

/// What the allocator's shared code must know of the policy and of the settings.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Regions to try for each migratetype, best first.
    pub(crate) route: [&'static [usize]; 3],
    /// Region that 1 GB HugeTLB pages come from.
    pub(crate) giga_region: usize,
    /// They come from its end downwards.
    pub(crate) giga_from_top: bool,
    /// A request for movable pages that retries compacts the whole region before it gives up.
    pub(crate) compacts_all: bool,
    /// All pages of the low region are of one type.
    pub(crate) one_type_low: bool,
    /// The low region has address bands (placement bias).
    pub(crate) banded: bool,
    /// Types may mix inside a block.
    pub(crate) mixing: bool,
    /// What hardware can move of unmovable pages, if there is any.
    pub(crate) hw_moves: Option<HwClasses>,
    /// A request of the kernel that reclaims goes through the page cache of the whole node, as
    /// Linux does (`shrink_node`), though what it frees may lie where the kernel does not allocate.
    pub(crate) reclaims_node: bool,
    /// Settings of Linux.
    pub(crate) tuning: Tuning,
    /// Watermarks of the machine, if they are known.
    pub(crate) marks: Option<Marks>,
    /// How far the allocator goes for large blocks.
    pub(crate) costly: CostlyRequests,
}

/// Stock Linux: one region in which types may mix.
impl Default for Rules {
    fn default() -> Rules {
        Rules {
            route: [&[HIGH]; 3],
            giga_region: HIGH,
            giga_from_top: false,
            compacts_all: false,
            one_type_low: false,
            banded: false,
            mixing: true,
            hw_moves: None,
            reclaims_node: false,
            tuning: Tuning::STOCK,
            marks: None,
            costly: CostlyRequests::Kernel,
        }
    }
}
