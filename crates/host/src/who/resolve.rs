// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the evidence in `struct page` and the claims of the walks to owners and their blocks.

use super::claims::Claims;
use super::evidence::EvidenceRun;
use super::kernel::KernelMemory;
use super::owners::{OwnerId, OwnerName};
use super::tables::{SpaceHalf, TableFrame, walk};
use super::tally::ranked;
use super::tasks::{RunningProcess, charges, tasks};
use super::text::{device_name, image_ranges, modules};
use super::vmalloc::{VmapCache, areas, claim_mappings};
use super::{OwnerKind, Who, files, sockets};
use crate::{HostError, KernelSymbols, PageRuns, Root};
use ample_pfn::{PageClass, Pfn, PfnRange};
use std::collections::HashMap;

/// What is known of the machine before its structures are followed.
pub struct KernelPlace {
    /// Address of the running task.
    pub task: u64,
    /// Number of the memory controller among those of control groups.
    pub memory_controller: Option<u64>,
    /// Frame of the kernel's own top table, where the kernel says.
    pub kernel_table: Option<u64>,
    /// Levels of page tables: 4 or 5.
    pub levels: u32,
    /// Frames from the first to the last of memory.
    pub frames: u64,
    /// Seconds since boot.
    pub uptime_seconds: u64,
}

/// Names the owners of all runs.
///
/// What cannot be followed on this kernel is said in [`Who::hints`].
pub fn resolve(
    kernel: &mut dyn KernelMemory,
    place: &KernelPlace,
    runs: &[EvidenceRun],
    pages: &PageRuns,
) -> Who {
    let mut work = Work {
        kernel,
        runs,
        claims: Claims::default(),
        hints: Vec::new(),
    };
    let tasks = work.try_to("processes", |work| {
        let (task, controller) = (place.task, place.memory_controller);
        tasks(work.kernel, task, controller, place.uptime_seconds)
    });
    let tasks = tasks.unwrap_or_default();
    let caches = work
        .try_to("slab caches", Work::cache_names)
        .unwrap_or_default();
    work.try_to("page tables of processes", |work| {
        work.process_tables(place, &tasks)
    });
    work.try_to("kernel mappings", |work| {
        work.kernel_mappings(place, &caches)
    });
    work.claim_image();
    let open = work.try_to("open files", |work| files::open_files(work.kernel, &tasks));
    if let Some(open) = open {
        work.try_to("pipes", |work| {
            files::claim_pipes(work.kernel, &mut work.claims, &tasks, &open.pipes)
        });
        work.try_to("sockets", |work| {
            sockets::claim_sockets(work.kernel, &mut work.claims, &tasks, &open.sockets)
        });
    }
    let names = Names {
        caches,
        pools: work
            .try_to("page pools", Work::pool_names)
            .unwrap_or_default(),
        charges: work
            .try_to("charges", Work::charge_names)
            .unwrap_or_default(),
        file_systems: work
            .try_to("file systems", Work::metadata_names)
            .unwrap_or_default(),
    };
    work.finish(&names, pages)
}

/// Names by what `struct page` holds.
#[derive(Default)]
struct Names {
    caches: HashMap<u64, Cache>,
    pools: HashMap<u64, String>,
    charges: HashMap<u64, String>,
    /// Address spaces whose pages are allocated unmovable.
    file_systems: HashMap<u64, String>,
}

/// A slab cache.
#[derive(Clone, Debug)]
struct Cache {
    name: String,
    stride_bytes: u64,
    object_bytes: u64,
    slab_pages: u64,
}

struct Work<'a> {
    kernel: &'a mut dyn KernelMemory,
    runs: &'a [EvidenceRun],
    claims: Claims,
    hints: Vec<String>,
}

impl Work<'_> {
    /// Runs a step; what stops it becomes a hint.
    fn try_to<T>(
        &mut self,
        what: &str,
        step: impl FnOnce(&mut Self) -> Result<T, HostError>,
    ) -> Option<T> {
        match step(self) {
            Ok(done) => Some(done),
            Err(error) => {
                self.hints.push(format!("{what}: {error}"));
                None
            }
        }
    }

    /// Distinct keys of the runs of some classes.
    fn keys(&self, of: impl Fn(PageClass) -> bool) -> Vec<u64> {
        let runs = self.runs.iter().filter(|run| of(run.class) && run.key != 0);
        let mut keys: Vec<u64> = runs.map(|run| run.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn cache_names(&mut self) -> Result<HashMap<u64, Cache>, HostError> {
        /// Order of the slabs of a cache: `OO_SHIFT`, `mm/slub.c`.
        const ORDER_SHIFT: u32 = 16;
        let keys = self.keys(is_slab);
        let mut field = |path| -> Result<Vec<u64>, HostError> {
            let at = self.kernel.field(path)?;
            self.kernel.follow(&keys, at)
        };
        let (texts, strides) = (field("kmem_cache.name")?, field("kmem_cache.size")?);
        let (sizes, orders) = (field("kmem_cache.object_size")?, field("kmem_cache.oo")?);
        let texts = self.kernel.texts(&texts)?;
        let cache = |at: usize| Cache {
            name: texts[at].clone(),
            stride_bytes: u64::from(strides[at] as u32).max(8),
            object_bytes: u64::from(sizes[at] as u32),
            slab_pages: 1 << ((orders[at] as u32 >> ORDER_SHIFT).min(10)),
        };
        Ok((0..keys.len()).map(|at| (keys[at], cache(at))).collect())
    }

    /// Claims the page tables of processes.
    fn process_tables(
        &mut self,
        place: &KernelPlace,
        tasks: &[RunningProcess],
    ) -> Result<(), HostError> {
        let own: Vec<&RunningProcess> = tasks.iter().filter(|task| task.mm != 0).collect();
        let spaces: Vec<u64> = own.iter().map(|task| task.mm).collect();
        let at = self.kernel.field("mm_struct.pgd")?;
        let tops = self.kernel.follow(&spaces, at)?;
        let mut tables = Vec::new();
        for (task, top) in own.into_iter().zip(tops) {
            let owner = files::owner_of(&mut self.claims, OwnerKind::PageTable, task);
            tables.extend(self.table(top, owner));
        }
        let claims = &mut self.claims;
        let known = |frame| contains(self.runs, frame, |class| class == PageClass::PageTable);
        walk(
            self.kernel,
            claims,
            tables,
            place.levels,
            SpaceHalf::User,
            &known,
        )?;
        Ok(())
    }

    fn table(&self, address: u64, owner: OwnerId) -> Option<TableFrame> {
        let frame = super::kernel::frame_of_address(self.kernel, address)?;
        Some(TableFrame {
            frame,
            address: 0,
            owner,
        })
    }

    /// Claims what the kernel maps for itself, and the tables for it.
    fn kernel_mappings(
        &mut self,
        place: &KernelPlace,
        caches: &HashMap<u64, Cache>,
    ) -> Result<(), HostError> {
        let owner = self
            .claims
            .id(OwnerName::new(OwnerKind::PageTable, "kernel"));
        let frame = place.kernel_table.ok_or_else(|| {
            HostError::Bpf("vmcoreinfo does not say where the kernel's tables are".into())
        })?;
        let top = TableFrame {
            frame,
            address: 0,
            owner,
        };
        let known = |frame| contains(self.runs, frame, |class| class != PageClass::File);
        let claims = &mut self.claims;
        let half = SpaceHalf::Kernel {
            frames: place.frames,
        };
        let mappings = walk(self.kernel, claims, vec![top], place.levels, half, &known)?;
        let size = self.kernel.size("vmap_area").unwrap_or(0);
        let slabs = self.runs.iter().filter(|run| is_slab(run.class));
        let slabs: Vec<(PfnRange, VmapCache)> = slabs
            .filter_map(|run| Some((run.range, caches.get(&run.key)?)))
            .filter(|(_, cache)| cache.object_bytes == size)
            .map(|(range, cache)| {
                let shape = VmapCache {
                    stride_bytes: cache.stride_bytes,
                    slab_pages: cache.slab_pages,
                };
                (range, shape)
            })
            .collect();
        let areas = areas(self.kernel, &slabs)?;
        let root = Root::live();
        let symbols = KernelSymbols::read(&root)?;
        let start = self.kernel.memory_map();
        let last = self.runs.last().map_or(0, |run| run.range.end.0);
        let map = start..start + last.next_multiple_of(1 << 15) * 64;
        let modules = modules(&root.read("proc/modules").unwrap_or_default());
        claim_mappings(&mut self.claims, &mappings, map, &modules, &areas, &symbols);
        Ok(())
    }

    /// Claims the image of the kernel, and what lies below 1 MB.
    fn claim_image(&mut self) {
        const FIRST_MEGABYTE: u64 = 256;
        let text = Root::live().read("proc/iomem").unwrap_or_default();
        for (start, end, name) in image_ranges(&text) {
            let owner = self.claims.id(OwnerName::new(OwnerKind::KernelImage, name));
            self.claims.add(PfnRange::new(Pfn(start), Pfn(end)), owner);
        }
        let firmware = OwnerName::new(OwnerKind::Boot, "first MB (firmware, start of processors)");
        let owner = self.claims.id(firmware);
        self.claims
            .add(PfnRange::new(Pfn(0), Pfn(FIRST_MEGABYTE)), owner);
    }

    fn pool_names(&mut self) -> Result<HashMap<u64, String>, HostError> {
        let keys = self.keys(|class| class == PageClass::Network);
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let at = self.kernel.field("page_pool.slow.netdev")?;
        let devices = self.kernel.follow(&keys, at)?;
        let at = self.kernel.field("net_device.name")?;
        let names: Vec<u64> = devices
            .iter()
            .map(|&device| match device {
                0 => 0,
                device => device + at,
            })
            .collect();
        let names = self.kernel.texts(&names)?;
        Ok(keys.into_iter().zip(names).collect())
    }

    fn charge_names(&mut self) -> Result<HashMap<u64, String>, HostError> {
        charges(self.kernel, self.runs.iter().map(|run| run.charge))
    }

    /// Names of the address spaces whose pages are allocated unmovable: those of block devices.
    fn metadata_names(&mut self) -> Result<HashMap<u64, String>, HostError> {
        /// `___GFP_MOVABLE`, `include/linux/gfp_types.h`.
        const MOVABLE: u64 = 8;
        let mut keys = self.keys(|class| class == PageClass::File);
        let at = self.kernel.field("address_space.gfp_mask")?;
        let masks = self.kernel.follow(&keys, at)?;
        let mut masks = masks.into_iter();
        // A mask of 0 is an address space that is gone.
        keys.retain(|_| {
            masks
                .next()
                .is_some_and(|mask| mask as u32 != 0 && mask & MOVABLE == 0)
        });
        let at = self.kernel.field("address_space.host")?;
        let hosts = self.kernel.follow(&keys, at)?;
        let at = self.kernel.field("inode.i_sb")?;
        let blocks = self.kernel.follow(&hosts, at)?;
        let at = self.kernel.field("inode.i_rdev")?;
        let devices = self.kernel.follow_u32(&hosts, at)?;
        let at = self.kernel.field("super_block.s_type")?;
        let kinds = self.kernel.follow(&blocks, at)?;
        let at = self.kernel.field("file_system_type.name")?;
        let kinds = self.kernel.follow(&kinds, at)?;
        let kinds = self.kernel.texts(&kinds)?;
        let at = self.kernel.field("super_block.s_id")?;
        let ids: Vec<u64> = blocks
            .iter()
            .map(|&block| if block == 0 { 0 } else { block + at })
            .collect();
        let ids = self.kernel.texts(&ids)?;
        let mounts = Root::live().read("proc/self/mountinfo").unwrap_or_default();
        let name = |at: usize| match device_name(devices[at], &mounts) {
            Some(device) if kinds[at] == "bdev" => device,
            _ => format!("{} {}", kinds[at], ids[at]),
        };
        Ok((0..keys.len()).map(|at| (keys[at], name(at))).collect())
    }

    /// Owners of all pages, in ascending ranges, and their counts.
    fn finish(mut self, names: &Names, pages: &PageRuns) -> Who {
        let mut held: Vec<(PfnRange, OwnerId)> = Vec::new();
        for run in self.runs {
            let mut start = run.range.start;
            while start < run.range.end {
                let (claimed, end) = match (claimable(run.class), run.compound) {
                    (false, _) => (None, run.range.end),
                    (true, true) => (self.claims.within(run.range), run.range.end),
                    (true, false) => self.claims.at(start, run.range.end),
                };
                let owner = match claimed {
                    Some(owner) => Some(owner),
                    None => owner_of(run, names).map(|name| self.claims.id(name)),
                };
                held.extend(owner.map(|owner| (PfnRange::new(start, end), owner)));
                start = end;
            }
        }
        Who {
            hints: self.hints,
            ..ranked(&self.claims.list, &held, pages)
        }
    }
}

fn is_slab(class: PageClass) -> bool {
    matches!(class, PageClass::Slab | PageClass::SlabReclaimable)
}

/// Whether a walk can say whose a page is; other pages say it themselves.
fn claimable(class: PageClass) -> bool {
    use PageClass::{KernelCompound, KernelOther, PageTable, Reserved};
    matches!(class, KernelCompound | KernelOther | PageTable | Reserved)
}

/// Whether a frame lies in a run whose class fits.
fn contains(runs: &[EvidenceRun], frame: u64, fits: impl Fn(PageClass) -> bool) -> bool {
    let after = runs.partition_point(|run| run.range.end.0 <= frame);
    runs.get(after)
        .is_some_and(|run| run.range.start.0 <= frame && fits(run.class))
}

/// The owner by what `struct page` says; `None` for pages that are not unmovable.
fn owner_of(run: &EvidenceRun, names: &Names) -> Option<OwnerName> {
    let named = |kind, name: Option<&String>, otherwise: &str| {
        OwnerName::new(
            kind,
            name.filter(|name| !name.is_empty())
                .map_or(otherwise, |name| name),
        )
    };
    let charged = |kind, name: &str| OwnerName {
        cgroup: names.charges.get(&run.charge).cloned(),
        ..OwnerName::new(kind, name)
    };
    Some(match run.class {
        class if is_slab(class) => {
            let cache = names.caches.get(&run.key).map(|cache| &cache.name);
            named(OwnerKind::Slab, cache, "cache is gone")
        }
        PageClass::PageTable => charged(OwnerKind::PageTable, "process is gone"),
        PageClass::Network => named(OwnerKind::PagePool, names.pools.get(&run.key), "no device"),
        PageClass::File => named(
            OwnerKind::FileSystem,
            Some(names.file_systems.get(&run.key)?),
            "",
        ),
        PageClass::Pinned => charged(OwnerKind::Pin, "user memory"),
        PageClass::Reserved => OwnerName::new(OwnerKind::Boot, "boot allocations"),
        PageClass::Offline => OwnerName::new(OwnerKind::Offline, "offline"),
        PageClass::HwPoison => OwnerName::new(OwnerKind::Offline, "memory errors"),
        _ if names.charges.contains_key(&run.charge) => {
            charged(OwnerKind::Charged, "kernel memory")
        }
        PageClass::KernelCompound => OwnerName::new(OwnerKind::Unknown, "compound pages"),
        _ => OwnerName::new(OwnerKind::Unknown, "single pages"),
    })
}
