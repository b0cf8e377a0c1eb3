// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which machines can be built: every field of a description, with what would be valid.

use crate::config::MachineConfig;
use ample_memory::{CacheConfig, LINE_BYTES, MOST_WAYS};
use ample_translate::{Geometry, PageSize, PwcKind, Replacement, TlbArray};
use std::fmt;

/// A field that no machine can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpossibleField {
    /// Where it stands: keys and places of lists, joined by dots.
    pub field: String,
    /// What is wrong and what would be valid.
    pub reason: String,
}

impl fmt::Display for ImpossibleField {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.reason)
    }
}

impl std::error::Error for ImpossibleField {}

type Checked = Result<(), ImpossibleField>;

/// Most of what is counted in events or entries; beyond it a description is a slip of the pen.
const MOST_ENTRIES: u64 = 1 << 20;
/// Most ways under srrip: each that leaves is searched for.
const MOST_PREDICTED_WAYS: u64 = 1024;
/// Most cycles of one step.
pub(crate) const MOST_CYCLES: u64 = 1_000_000;
/// Most bytes of a cache: its tags lie in the memory of the host.
const MOST_CACHE_BYTES: u64 = 4 << 30;

fn bad(field: impl Into<String>, reason: String) -> Checked {
    let field = field.into();
    Err(ImpossibleField { field, reason })
}

fn within(field: impl Into<String>, value: u64, least: u64, most: u64) -> Checked {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => bad(field, format!("{value}; valid: {least} to {most}")),
    }
}

fn real(field: &str, value: f64, least: f64, most: f64) -> Checked {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => bad(field, format!("{value}; valid: {least} to {most}")),
    }
}

/// The divisors of a number of entries next to a number of ways.
fn divisors_beside(entries: u64, ways: u64) -> String {
    let divides = |ways: &u64| *ways > 0 && entries.is_multiple_of(*ways);
    let below = (1..ways.min(entries)).rev().find(divides);
    let above = (ways + 1..=entries).find(divides);
    let both = [below, above];
    let told: Vec<String> = both.iter().flatten().map(u64::to_string).collect();
    told.join(" or ")
}

fn geometry(field: &str, shape: &Geometry) -> Checked {
    let (entries, ways) = (u64::from(shape.entries), u64::from(shape.ways));
    within(format!("{field}.entries"), entries, 1, MOST_ENTRIES)?;
    let at = format!("{field}.ways");
    within(at.clone(), ways, 1, entries)?;
    if !entries.is_multiple_of(ways) {
        let valid = divisors_beside(entries, ways);
        let reason = format!("{ways} ways do not divide {entries} entries; valid: {valid}");
        return bad(at, reason);
    }
    if shape.replacement == Replacement::Plru && (!ways.is_power_of_two() || ways > 16) {
        let reason = format!("{ways} ways have no tree for plru; valid: 1, 2, 4, 8, 16, or lru");
        return bad(at, reason);
    }
    if shape.replacement == Replacement::Srrip {
        within(at, ways, 1, MOST_PREDICTED_WAYS)?;
    }
    if shape.seed != 0 && shape.replacement != Replacement::Random {
        let reason = format!("{}; valid: 0, or replacement = \"random\"", shape.seed);
        return bad(format!("{field}.seed"), reason);
    }
    Ok(())
}

fn cache(field: &str, shape: &CacheConfig) -> Checked {
    let ways = u64::from(shape.ways);
    within(format!("{field}.ways"), ways, 1, MOST_WAYS.into())?;
    let least = LINE_BYTES * ways;
    let at = format!("{field}.bytes");
    within(at.clone(), shape.bytes, least, MOST_CACHE_BYTES)?;
    if !shape.bytes.is_multiple_of(least) {
        let below = shape.bytes / least * least;
        let reason = format!(
            "{} bytes are not whole sets of {ways} lines of 64 bytes; valid: {below} or {}",
            shape.bytes,
            below + least
        );
        return bad(at, reason);
    }
    let cycles = u64::from(shape.latency_cycles);
    within(format!("{field}.latency_cycles"), cycles, 0, MOST_CYCLES)
}

/// The arrays of one level of TLB; a first level holds 4 KB pages.
fn tlbs(level: &str, arrays: &[TlbArray], first: bool) -> Checked {
    let mut held = Vec::new();
    for (at, array) in arrays.iter().enumerate() {
        let field = format!("mmu.{level}.{at}");
        geometry(&format!("{field}.geometry"), &array.geometry)?;
        let (sizes, at) = (&array.sizes, format!("{field}.sizes"));
        if sizes.is_empty() || !sizes.is_sorted_by(|a, b| a < b) {
            let reason = "valid: some of 4k, 2m, 1g, in this order and each once";
            return bad(at, reason.into());
        }
        if let Some(size) = sizes.iter().find(|size| held.contains(size)) {
            let name = size.name();
            let reason = format!("{name} pages have another array in {level} already");
            return bad(at, reason + "; valid: each size in one array of a level");
        }
        held.extend(sizes);
    }
    if first && !held.contains(&&PageSize::K4) {
        let reason = "no array holds 4 KB pages; valid: one whose sizes begin with 4k";
        return bad(format!("mmu.{level}"), reason.into());
    }
    if let Some((number, page, reason)) = TlbArray::wrong_pieces(arrays) {
        return bad(
            format!("mmu.{level}.{number}.pieces.{}", page.name()),
            reason,
        );
    }
    Ok(())
}

/// The page-walk caches of a machine or of the host of a virtual one.
fn walk_caches(name: &str, kind: &PwcKind) -> Checked {
    match kind {
        PwcKind::Absent => Ok(()),
        PwcKind::Unified(shape) => geometry(&format!("mmu.{name}.unified"), shape),
        PwcKind::PerLevel(arrays) => {
            let field = format!("mmu.{name}.per_level");
            // With four levels the fourth array stays empty.
            if !(1..=4).contains(&arrays.len()) {
                let count = arrays.len();
                let valid = format!("valid: 1 to 4, from level 2 upwards, or {name} = \"absent\"");
                return bad(field, format!("{count} arrays; {valid}"));
            }
            let mut shapes = arrays.iter().enumerate();
            shapes.try_for_each(|(at, shape)| geometry(&format!("{field}.{at}"), shape))
        }
    }
}

impl MachineConfig {
    /// Checks every field: a machine that passes can be built and run.
    ///
    /// # Errors
    /// The first field that is impossible, with what would be valid.
    pub fn check(&self) -> Result<(), ImpossibleField> {
        if self.name.is_empty() {
            return bad("name", "empty; valid: any text".into());
        }
        // A segment, a mix of page sizes and page tables want some room.
        within("memory_bytes", self.memory_bytes, 1 << 30, 1 << 40)?;
        if !self.memory_bytes.is_multiple_of(1 << 30) {
            let reason = format!("{}; valid: a multiple of 1 GB", self.memory_bytes);
            return bad("memory_bytes", reason);
        }
        real("core.ghz", self.core.ghz, 0.01, 100.0)?;
        within("core.width", self.core.width.into(), 1, 64)?;
        within("core.rob", self.core.rob.into(), 1, 1 << 16)?;
        within(
            "core.store_buffer",
            self.core.store_buffer.into(),
            1,
            1 << 16,
        )?;
        self.check_memory()?;
        self.check_translation()
    }

    fn check_memory(&self) -> Checked {
        let memory = &self.memory;
        let caches = [
            ("memory.l1d", &memory.l1d),
            ("memory.l1i", &memory.l1i),
            ("memory.l2", &memory.l2),
            ("memory.llc", &memory.llc),
        ];
        for (field, shape) in caches {
            cache(field, shape)?;
        }
        // Each level takes the difference to the one above: the times are from the core.
        for pair in [[0, 2], [1, 2], [2, 3]] {
            let [(_, near), (field, far)] = pair.map(|at| caches[at]);
            let (least, cycles) = (near.latency_cycles.into(), far.latency_cycles.into());
            within(
                format!("{field}.latency_cycles"),
                cycles,
                least,
                MOST_CYCLES,
            )?;
        }
        within("memory.mshrs", memory.mshrs.into(), 1, 4096)?;
        within("memory.prefetch_lines", memory.prefetch_lines.into(), 0, 64)?;
        within("memory.next_lines", memory.next_lines.into(), 0, 64)?;
        let dram = &memory.dram;
        real("memory.dram.tck_ns", dram.tck_ns, 0.01, 1000.0)?;
        real("memory.dram.controller_ns", dram.controller_ns, 0.0, 1e6)?;
        let times = [
            ("cl", dram.cl, 0),
            ("trcd", dram.trcd, 0),
            ("trp", dram.trp, 0),
            ("tras", dram.tras, 0),
            ("burst", dram.burst, 2),
        ];
        for (name, value, least) in times {
            within(format!("memory.dram.{name}"), value.into(), least, 10_000)?;
        }
        if let Some(limits) = &dram.limits {
            let fields = [
                ("trrd", limits.trrd, 10_000),
                ("tfaw", limits.tfaw, 10_000),
                ("twtr", limits.twtr, 10_000),
                ("trfc", limits.trfc, 1_000_000),
                ("trefi", limits.trefi, 100_000_000),
                ("write_batch", limits.write_batch, 1024),
            ];
            for (name, value, most) in fields {
                within(format!("memory.dram.limits.{name}"), value.into(), 0, most)?;
            }
            if let Err(wrong) = limits.check(dram.tras + dram.trp) {
                return bad(format!("memory.{}", wrong.field), wrong.reason);
            }
        }
        within("memory.dram.channels", dram.channels.into(), 1, 1024)?;
        within("memory.dram.banks", dram.banks.into(), 1, 4096)?;
        let row = u64::from(dram.row_bytes);
        within("memory.dram.row_bytes", row, 64, 1 << 20)?;
        if !row.is_multiple_of(LINE_BYTES) {
            let reason = format!("{row}; valid: a multiple of 64");
            return bad("memory.dram.row_bytes", reason);
        }
        Ok(())
    }

    fn check_translation(&self) -> Checked {
        let mmu = &self.mmu;
        within("mmu.levels", mmu.levels.into(), 4, 5)?;
        tlbs("l1d", &mmu.l1d, true)?;
        tlbs("l1i", &mmu.l1i, true)?;
        tlbs("l2", &mmu.l2, false)?;
        within("mmu.walkers", mmu.walkers.into(), 1, 1024)?;
        let steps = [
            ("mmu.l2_cycles", mmu.l2_cycles),
            ("mmu.pwc_cycles", mmu.pwc_cycles),
            ("mmu.reference_cycles", mmu.reference_cycles),
            ("mmu.nested_cycles", mmu.nested_cycles),
            ("mmu.invlpg_cycles", mmu.invlpg_cycles),
            ("mmu.flush_cycles", mmu.flush_cycles),
            ("mmu.ipi_cycles_per_core", mmu.ipi_cycles_per_core),
        ];
        for (field, cycles) in steps {
            within(field, cycles.into(), 0, MOST_CYCLES)?;
        }
        if let Some(cycles) = mmu.host_pwc_cycles {
            within("mmu.host_pwc_cycles", cycles.into(), 0, MOST_CYCLES)?;
        }
        if let Some(shape) = &mmu.nested_tlb {
            geometry("mmu.nested_tlb", shape)?;
        }
        walk_caches("pwc", &mmu.pwc)?;
        let host = mmu.host_pwc.as_ref();
        host.map_or(Ok(()), |kind| walk_caches("host_pwc", kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_memory::LimitsConfig;

    fn refused(change: impl Fn(&mut MachineConfig)) -> String {
        let mut machine = MachineConfig::preset("skylake").unwrap();
        machine.check().unwrap();
        change(&mut machine);
        machine.check().unwrap_err().to_string()
    }

    #[test]
    fn impossible_fields_are_named_with_what_would_be_valid() {
        let zero = refused(|m| m.mmu.l2[0].geometry.ways = 0);
        assert!(
            zero.starts_with("mmu.l2.0.geometry.ways: 0; valid: 1 to"),
            "{zero}"
        );
        let rest = refused(|m| m.mmu.l1d[0].geometry = Geometry::new(64, 5));
        assert!(rest.contains("valid: 4 or 8"), "{rest}");
        let order = refused(|m| m.mmu.l1d[0].sizes = vec![PageSize::M2, PageSize::K4]);
        assert!(order.contains("4k, 2m, 1g, in this order"), "{order}");
        let twice = refused(|m| {
            let again = m.mmu.l2[0].clone();
            m.mmu.l2.push(again);
        });
        assert!(
            twice.contains("mmu.l2.") && twice.contains("another array"),
            "{twice}"
        );
        assert!(refused(|m| m.mmu.walkers = 0).contains("mmu.walkers: 0; valid: 1 to"));
        assert!(refused(|m| m.memory.mshrs = 0).contains("memory.mshrs: 0; valid: 1 to"));
        assert!(refused(|m| m.memory.l2.bytes = 1000).contains("valid: "));
        assert!(refused(|m| m.core.ghz = f64::NAN).contains("core.ghz: NaN"));
        assert!(refused(|m| m.memory.llc.latency_cycles = 1).contains("memory.llc"));
        assert!(refused(|m| m.mmu.pwc = PwcKind::PerLevel(vec![])).contains("absent"));
        assert!(refused(|m| m.memory.dram.channels = 0).contains("dram.channels"));
        assert!(refused(|m| m.mmu.l1i.clear()).contains("begin with 4k"));
        let limits = refused(|m| {
            m.memory.dram.limits = Some(LimitsConfig {
                trefi: 100,
                ..LimitsConfig::default()
            });
        });
        assert!(
            limits.starts_with("memory.dram.limits: trefi: "),
            "{limits}"
        );
    }

    #[test]
    fn pieces_that_no_array_can_hold_are_named() {
        let pieces =
            |page, piece| refused(|m| m.mmu.l2[0].pieces = [(page, piece)].into_iter().collect());
        let large = pieces(PageSize::K4, PageSize::M2);
        assert!(
            large.starts_with("mmu.l2.0.pieces.4k: pieces of 2m; valid: smaller"),
            "{large}"
        );
        assert!(pieces(PageSize::M2, PageSize::K4).contains("2m pages are held by array 0"));
        assert!(pieces(PageSize::G1, PageSize::K4).contains("1g pages are held by array 1"));
        let none = refused(|m| m.mmu.l1d[1].pieces = [(PageSize::G1, PageSize::K4)].into());
        assert!(
            none.starts_with("mmu.l1d.1.pieces.1g: pieces of 4k; valid: one of"),
            "{none}"
        );
    }

    #[test]
    fn walk_caches_of_a_host_are_checked() {
        let host = refused(|m| m.mmu.host_pwc = Some(PwcKind::PerLevel(vec![])));
        assert!(
            host.starts_with("mmu.host_pwc.per_level: 0 arrays; valid: 1 to 4"),
            "{host}"
        );
        let host = refused(|m| m.mmu.host_pwc = Some(PwcKind::Unified(Geometry::new(8, 3))));
        assert!(
            host.starts_with("mmu.host_pwc.unified.ways: 3 ways"),
            "{host}"
        );
        let slow = refused(|m| m.mmu.host_pwc_cycles = Some(u32::MAX));
        assert!(slow.starts_with("mmu.host_pwc_cycles: "), "{slow}");
    }

    #[test]
    fn policies_are_checked() {
        let seed = refused(|m| m.mmu.l2[0].geometry.seed = 7);
        assert!(
            seed.starts_with("mmu.l2.0.geometry.seed: 7; valid: 0, or"),
            "{seed}"
        );
        let wide = refused(|m| {
            m.mmu.nested_tlb = Some(Geometry {
                replacement: Replacement::Srrip,
                ..Geometry::full(4096)
            });
        });
        assert!(
            wide.starts_with("mmu.nested_tlb.ways: 4096; valid: 1 to 1024"),
            "{wide}"
        );
    }
}
