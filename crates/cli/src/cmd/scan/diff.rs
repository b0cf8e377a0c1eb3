// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample scan diff A B`: what changed between two snapshots.

use super::export;
use super::view::View;
use ample_host::{Scan, printable, snapshot};
use ample_pfn::{
    BlockState, Definition, MetricsBuilder, PageClass, RatioInterval, SizeList, format_bytes,
};
use ample_report::Table;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Compare two snapshots of one machine, or of two.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The earlier snapshot.
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The later snapshot.
    #[arg(value_name = "B")]
    after: PathBuf,
    /// One JSON object, schema ample.scan-diff/1.
    #[arg(long)]
    json: bool,
    /// Block sizes to report.
    #[arg(long, value_name = "LIST", default_value = "2M,4M,32M,1G")]
    sizes: SizeList,
}

/// A value in both snapshots.
#[derive(Debug, Serialize)]
struct Pair<T> {
    a: T,
    b: T,
}

#[derive(Debug, Serialize)]
struct Side {
    file: String,
    hostname: Option<String>,
    kernel: String,
    reader: String,
    unix_time_seconds: Option<u64>,
    memory_bytes: Option<u64>,
    free_bytes: u64,
}

#[derive(Debug, Serialize)]
struct SizeDiff {
    size_bytes: u64,
    free_contiguity_ratio: Pair<Option<f64>>,
    unmovable_ratio: BTreeMap<&'static str, Pair<RatioInterval>>,
    potential_ratio: BTreeMap<&'static str, Pair<RatioInterval>>,
}

#[derive(Debug, Serialize)]
struct Diff {
    schema: &'static str,
    a: Side,
    b: Side,
    sizes: Vec<SizeDiff>,
    class_pages: BTreeMap<String, Pair<u64>>,
    /// Blocks of 2 MB by state before and after, under K; `null` when the snapshots are of
    /// machines with different zones.
    blocks_2m_from_to: Option<BTreeMap<&'static str, BTreeMap<&'static str, u64>>>,
    /// Frames whose class is another one, of those that are memory in both.
    changed_pages: Option<u64>,
}

/// Compares and reports.
///
/// # Errors
/// When a snapshot cannot be read.
pub fn run(args: &DiffArgs) -> anyhow::Result<Vec<u8>> {
    let mut scans = [snapshot::read(&args.before)?, snapshot::read(&args.after)?];
    let files = [&args.before, &args.after].map(|path| path.display().to_string());
    let diff = compare(&mut scans, files, &args.sizes);
    if args.json {
        export::json(&diff)
    } else {
        Ok(text(&diff).into_bytes())
    }
}

fn compare(scans: &mut [Scan; 2], files: [String; 2], sizes: &SizeList) -> Diff {
    let builders = scans.each_mut().map(|scan| {
        let Ok(builder) = MetricsBuilder::collect(scan, sizes);
        builder
    });
    let views = [
        View::new(&scans[0], &builders[0]),
        View::new(&scans[1], &builders[1]),
    ];
    let [file_a, file_b] = files;
    let same_machine = scans[0].layout == scans[1].layout;
    Diff {
        schema: "ample.scan-diff/1",
        sizes: sizes
            .orders()
            .iter()
            .map(|order| size_diff(&views, order.bytes()))
            .collect(),
        class_pages: class_diff(&views),
        blocks_2m_from_to: same_machine.then(|| transitions(scans)),
        changed_pages: same_machine.then(|| changed_pages(&scans[0], &scans[1])),
        a: side(file_a, &views[0]),
        b: side(file_b, &views[1]),
    }
}

fn side(file: String, view: &View) -> Side {
    Side {
        file,
        hostname: view.hostname.clone(),
        kernel: view.kernel.clone(),
        reader: view.reader.clone(),
        unix_time_seconds: view.unix_time_seconds,
        memory_bytes: view.total.memory_bytes,
        free_bytes: view.total.free_bytes,
    }
}

impl<T> Pair<T> {
    fn of(views: &[View; 2], pick: impl Fn(&View) -> T) -> Pair<T> {
        Pair {
            a: pick(&views[0]),
            b: pick(&views[1]),
        }
    }
}

fn size_diff(views: &[View; 2], size_bytes: u64) -> SizeDiff {
    let pair_of = |pick: fn(&ample_pfn::DefinitionSize) -> RatioInterval| {
        let pair = |definition: Definition| {
            let both = Pair::of(views, |view| {
                view.total.at(definition, size_bytes).map(pick)
            });
            let (a, b) = (both.a?, both.b?);
            Some((definition.name(), Pair { a, b }))
        };
        Definition::ALL.into_iter().filter_map(pair).collect()
    };
    let free = |view: &View| {
        let mut sizes = view.total.sizes.iter();
        let size = sizes.find(|size| size.size_bytes == size_bytes)?;
        size.free_contiguity_ratio
    };
    SizeDiff {
        size_bytes,
        free_contiguity_ratio: Pair::of(views, free),
        unmovable_ratio: pair_of(|size| size.unmovable_ratio),
        potential_ratio: pair_of(|size| size.potential_ratio),
    }
}

fn class_diff(views: &[View; 2]) -> BTreeMap<String, Pair<u64>> {
    let pair = |name: &str| {
        let both = Pair::of(views, |view| {
            view.total.class_pages.as_ref()?.get(name).copied()
        });
        (both.a.is_some() || both.b.is_some()).then(|| Pair {
            a: both.a.unwrap_or(0),
            b: both.b.unwrap_or(0),
        })
    };
    (PageClass::all().map(PageClass::name))
        .filter_map(|name| Some((name.to_string(), pair(name)?)))
        .collect()
}

fn state_name(state: BlockState) -> &'static str {
    match state {
        BlockState::Hole => "hole",
        BlockState::Free => "free",
        BlockState::Movable => "movable",
        BlockState::Polluted => "polluted",
        BlockState::Unmovable => "unmovable",
    }
}

fn transitions(scans: &mut [Scan; 2]) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
    let states = scans.each_mut().map(|scan| {
        // Base blocks of 2 MB, whatever sizes were asked for.
        let Ok(builder) = MetricsBuilder::collect(scan, &SizeList::standard());
        let (_, base, blocks) = builder.blocks();
        let pages = base.pages() as u16;
        let state = blocks.iter().map(|block| block.state(Definition::K, pages));
        state.collect::<Vec<_>>()
    });
    let mut table = BTreeMap::<_, BTreeMap<_, u64>>::new();
    for (&from, &to) in states[0].iter().zip(&states[1]) {
        *table
            .entry(state_name(from))
            .or_default()
            .entry(state_name(to))
            .or_default() += 1;
    }
    table
}

fn changed_pages(a: &Scan, b: &Scan) -> u64 {
    let mut changed = 0;
    let (mut left, mut right) = (a.pages.iter(), b.pages.iter());
    let (mut x, mut y) = (left.next(), right.next());
    while let (Some((p, c)), Some((q, d))) = (x, y) {
        if c != d && c != PageClass::Hole && d != PageClass::Hole {
            changed += p.intersect(q).pages();
        }
        if p.end <= q.end {
            x = left.next();
        }
        if q.end <= p.end {
            y = right.next();
        }
    }
    changed
}

fn text(diff: &Diff) -> String {
    let mut text = String::new();
    for (letter, side) in [("A", &diff.a), ("B", &diff.b)] {
        text += &format!(
            "{letter}  {}: {}, Linux {}, {} of memory, {} free, reader {}\n",
            side.file,
            printable(side.hostname.as_deref().unwrap_or("unknown host")),
            printable(&side.kernel),
            side.memory_bytes.map_or("-".into(), format_bytes),
            format_bytes(side.free_bytes),
            printable(&side.reader),
        );
    }
    text += &format!("\n{}", sizes_table(diff));
    text += &format!("\n{}", class_table(diff));
    match (&diff.blocks_2m_from_to, diff.changed_pages) {
        (Some(table), Some(changed)) => {
            text += "\n2 MB blocks, from A (rows) to B (columns), as in K\n";
            text += &transition_table(table);
            text += &format!("\n{changed} pages changed their class\n");
        }
        _ => text += "\nThe zones differ: pages and blocks cannot be compared one by one.\n",
    }
    text
}

fn sizes_table(diff: &Diff) -> String {
    let mut table = Table::headed(">block | metric | >A | >B | >change");
    let percent = |ratio: Option<f64>| ratio.map_or("-".into(), |r| format!("{:.1} %", 100.0 * r));
    for size in &diff.sizes {
        let unmovable = size.unmovable_ratio.iter().map(|(letter, Pair { a, b })| {
            let name = format!("unmovable {letter}, at most");
            (name, a.high, b.high)
        });
        let potential = size.potential_ratio.iter().map(|(letter, Pair { a, b })| {
            let name = format!("potential {letter}, at least");
            (name, a.low, b.low)
        });
        let free = &size.free_contiguity_ratio;
        let free = [("of free".to_string(), free.a, free.b)].into_iter();
        for (name, a, b) in free.chain(unmovable).chain(potential) {
            let change = a
                .zip(b)
                .map_or("-".into(), |(a, b)| format!("{:+.1}", 100.0 * (b - a)));
            let block = format_bytes(size.size_bytes);
            table.row(vec![block, name, percent(a), percent(b), change]);
        }
    }
    table.to_text()
}

fn class_table(diff: &Diff) -> String {
    let mut table = Table::headed("class | >A pages | >B pages | >change");
    for (class, pair) in &diff.class_pages {
        let change = format!("{:+}", pair.b as i128 - pair.a as i128);
        table.row(vec![
            class.clone(),
            pair.a.to_string(),
            pair.b.to_string(),
            change,
        ]);
    }
    table.to_text()
}

fn transition_table(table: &BTreeMap<&'static str, BTreeMap<&'static str, u64>>) -> String {
    const STATES: [&str; 5] = ["free", "movable", "polluted", "unmovable", "hole"];
    let mut out = Table::headed(&format!("| >{}", STATES.join(" | >")));
    for from in STATES.iter().filter(|&&state| table.contains_key(state)) {
        let mut row = vec![from.to_string()];
        row.extend(STATES.map(|to| table[from].get(to).copied().unwrap_or(0).to_string()));
        out.row(row);
    }
    out.to_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_host::{RunEncoder, ScanMeta};
    use ample_pfn::{Coverage, Layout, Pfn};

    fn scan(layout: &Layout, classes: &[(PageClass, usize)]) -> Scan {
        let pages: Vec<PageClass> = classes
            .iter()
            .flat_map(|&(class, n)| std::iter::repeat_n(class, n))
            .collect();
        let mut encoder = RunEncoder::new(layout);
        encoder.push(Pfn(0), &pages);
        Scan {
            meta: ScanMeta {
                reader: "procfs".into(),
                coverage: Coverage {
                    ambiguous_free_pages: Some(0),
                    owners: false,
                },
                notes: vec![],
                kernel: "6.12".into(),
                hostname: None,
                unix_time_seconds: None,
                uptime_seconds: None,
                duration_ns: 0,
                cpu_ns: 0,
                pageblocks: None,
                who: None,
                zones: vec![],
                counters: BTreeMap::new(),
            },
            layout: layout.clone(),
            pages: encoder.finish(),
        }
    }

    #[test]
    fn changes_are_counted_by_page_and_by_block() {
        let layout = Layout::single(Pfn(0), 1024);
        let before = scan(&layout, &[(PageClass::Free, 512), (PageClass::Anon, 512)]);
        let after = scan(
            &layout,
            &[
                (PageClass::Free, 500),
                (PageClass::Slab, 12),
                (PageClass::Anon, 512),
            ],
        );
        let files = ["a".to_string(), "b".to_string()];
        let diff = compare(&mut [before, after], files, &SizeList::standard());
        assert_eq!(diff.changed_pages, Some(12));
        let table = diff.blocks_2m_from_to.as_ref().unwrap();
        assert_eq!(table["free"]["polluted"], 1);
        assert_eq!(table["movable"]["movable"], 1);
        let text = text(&diff);
        assert!(text.contains("unmovable K, at most"), "{text}");
        assert!(text.contains("+50.0"), "{text}");
    }

    #[test]
    fn machines_with_other_zones_are_compared_by_shares_only() {
        let one = scan(&Layout::single(Pfn(0), 512), &[(PageClass::Free, 512)]);
        let other = scan(&Layout::single(Pfn(0), 1024), &[(PageClass::Free, 1024)]);
        let files = ["a".to_string(), "b".to_string()];
        let diff = compare(&mut [one, other], files, &SizeList::standard());
        assert_eq!(diff.changed_pages, None);
        assert!(text(&diff).contains("zones differ"));
    }
}
