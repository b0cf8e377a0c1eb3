// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of one process, control group or file: what of it is huge, and what stands in the
//! way of the rest.

use super::style::{Style, wrap};
use ample_host::{MappedMemory, MappedTarget, OwnerKind, PageOwner, Who, read_mapped};
use ample_pfn::{Definition, MetricsBuilder, Order, Source, format_bytes};
use ample_report::Table;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// Sizes of stretches: the largest folio that arm64 maps with one entry, a 2 MB page, a 1 GB page.
const ORDERS: [Order; 3] = [Order(4), Order(9), Order(18)];

/// Owners named to a person; JSON has all.
const MOST_OWNERS: usize = 8;

/// Whose memory to look at.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct Filter {
    /// Also look at the memory of process P: what of it is huge, what could be, who is in the way.
    #[arg(long, value_name = "P", conflicts_with_all = ["snapshot", "root"])]
    pid: Option<u32>,
    /// The same for all processes of a control group and of those below it.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["snapshot", "root"])]
    cgroup: Option<PathBuf>,
    /// The same for the cached pages of a file; nothing is read from the disk.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["snapshot", "root"])]
    file: Option<PathBuf>,
}

impl Filter {
    /// What was asked for, if anything.
    pub fn target(&self) -> Option<MappedTarget> {
        let process = self.pid.map(MappedTarget::Process);
        let group = self.cgroup.clone().map(MappedTarget::Group);
        process
            .or(group)
            .or(self.file.clone().map(MappedTarget::File))
    }
}

/// Its memory, and the blocks of the machine in which it lies.
#[derive(Debug, Serialize)]
pub struct ServiceMemory {
    #[serde(flatten)]
    memory: MappedMemory,
    /// 2 MB blocks that hold a page of it.
    blocks_2m: u64,
    /// Of these, blocks that hold an unmovable page (K).
    polluted_blocks_2m: u64,
    /// Blocks among these by the source of their unmovable pages.
    in_the_way: Vec<InTheWay>,
    /// The same by owner, with `--who`: the most blocks first.
    owners_in_the_way: Option<Vec<OwnerInTheWay>>,
}

#[derive(Debug, Serialize)]
struct OwnerInTheWay {
    kind: OwnerKind,
    name: String,
    blocks_2m: u64,
}

#[derive(Debug, Serialize)]
struct InTheWay {
    source: Source,
    blocks_2m: u64,
}

impl ServiceMemory {
    /// Reads the memory of `target` and looks its blocks up in the scan.
    ///
    /// # Errors
    /// When there is no such process, group or file, or its pages may not be looked at.
    pub fn read(
        target: &MappedTarget,
        builder: &MetricsBuilder,
        who: Option<&Who>,
    ) -> anyhow::Result<ServiceMemory> {
        let memory = read_mapped(target, &ORDERS)?;
        let named = |(owner, blocks_2m): (&PageOwner, u64)| OwnerInTheWay {
            kind: owner.kind,
            name: owner.name.clone(),
            blocks_2m,
        };
        let named = |who: &Who| {
            who.in_blocks(&memory.blocks)
                .into_iter()
                .map(named)
                .collect()
        };
        let owners_in_the_way = who.map(named);
        let (first, base, blocks) = builder.blocks();
        let own = memory.blocks.iter().filter_map(|(pfn, _)| {
            let at = pfn.0.checked_sub(first.0)? >> base.0;
            // A scan of smaller blocks than 2 MB has several in each.
            let count = 1usize << (9 - base.0);
            blocks.get(at as usize..at as usize + count)
        });
        let own: Vec<_> = own.collect();
        let polluted = |parts: &&&[ample_pfn::BlockTally]| {
            parts
                .iter()
                .any(|part| part.unmovable_high(Definition::K) > 0)
        };
        let in_the_way = Source::ALL.iter().enumerate().map(|(bit, &source)| {
            let with = |parts: &&&[ample_pfn::BlockTally]| {
                parts.iter().any(|part| part.sources >> bit & 1 == 1)
            };
            let blocks_2m = own.iter().filter(with).count() as u64;
            InTheWay { source, blocks_2m }
        });
        Ok(ServiceMemory {
            blocks_2m: own.len() as u64,
            polluted_blocks_2m: own.iter().filter(polluted).count() as u64,
            in_the_way: in_the_way.filter(|own| own.blocks_2m > 0).collect(),
            owners_in_the_way,
            memory,
        })
    }

    /// For a person.
    pub fn render(&self, style: &Style) -> String {
        let memory = &self.memory;
        let mut folios = Table::headed(">folio | >memory | >share");
        for (&size, &bytes) in &memory.folio_bytes {
            let share = 100.0 * bytes as f64 / memory.present_bytes.max(1) as f64;
            folios.row(vec![
                format_bytes(size),
                format_bytes(bytes),
                format!("{share:.1} %"),
            ]);
        }
        let mut sizes = Table::headed(">stretch | >with pages | >contiguous | >could be");
        for size in &memory.sizes {
            sizes.row(vec![
                format_bytes(size.size_bytes),
                size.stretches.to_string(),
                size.contiguous_stretches.to_string(),
                format_bytes(size.scattered_bytes),
            ]);
        }
        let mut text = format!("{}\n{}", folios.to_text(), sizes.to_text());
        let names = self
            .in_the_way
            .iter()
            .map(|own| format!("{} in {}", own.source.title(), own.blocks_2m));
        let mut in_the_way = names.collect::<Vec<_>>().join(", ");
        if in_the_way.is_empty() {
            in_the_way = "none".into();
        }
        let _ = write!(
            text,
            "{}{}",
            wrap(
                &format!(
                    "{} in memory, in {} blocks of 2 MB, of which {} hold unmovable pages: \
                     {in_the_way}.{}",
                    format_bytes(memory.present_bytes),
                    self.blocks_2m,
                    self.polluted_blocks_2m,
                    self.owners()
                ),
                style.columns.min(100)
            ),
            wrap(
                "folio: size of the page that the kernel manages; 16K to 1M are mTHP. stretch: \
                 aligned addresses inside one mapping. could be: memory in stretches that no \
                 single block backs.",
                style.columns.min(100)
            ),
        );
        text
    }

    /// A sentence on the owners in the way.
    fn owners(&self) -> String {
        let owners = self.owners_in_the_way.iter().flatten();
        let named =
            |own: &OwnerInTheWay| format!("{} {} in {}", own.kind.title(), own.name, own.blocks_2m);
        let names: Vec<String> = owners.take(MOST_OWNERS).map(named).collect();
        match (names.is_empty(), &self.owners_in_the_way) {
            (true, Some(_)) => String::new(),
            (true, None) => " Add --who for their names.".into(),
            (false, _) => format!(" By name, the most blocks first: {}.", names.join(", ")),
        }
    }

    /// What was looked at.
    pub fn name(&self) -> &str {
        &self.memory.name
    }
}
