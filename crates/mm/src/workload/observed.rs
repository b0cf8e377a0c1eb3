// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a kernel was seen to do with its pages to a workload that goes on doing it.
//!
//! The fit is parametric. Each group of pages (user memory, page cache, reclaimable slab, other
//! kernel memory) has a level, and kernel memory is split by lifetime: what lives less than a
//! second never settles and is left out, *passing* memory lives up to a quarter of the recording,
//! at most 65 s, and the rest *stays*. By Little's law a group that gets λ pages a second which
//! live E seconds on average holds λ·E pages.

use super::spec::{KernelSpec, PageCacheSpec, Process, UserMemory, Workload};
use crate::replay::classify;
use crate::server::is_placed;
use ample_pfn::{CLASS_COUNT, MigrateType, PageClass, is_movable};
use ample_trace::pages::Traced;

/// Lifetimes by powers of two: bucket 0 is below a millisecond, bucket `n` from 2^(n−1) ms to
/// 2^n ms.
pub type Lifetimes = [u64; 32];

/// Where the pages of a stream come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOrigin {
    /// They were there before, and in this use.
    Before(PageClass),
    /// Such requests.
    Request(Traced),
}

/// Pages of one origin.
#[derive(Clone, Debug, PartialEq)]
pub struct PageStream {
    /// Where they come from.
    pub origin: StreamOrigin,
    /// Pages allocated during the recording.
    pub allocated_pages: u64,
    /// Of these, or of those that were there before, the pages freed.
    pub freed_pages: u64,
    /// The pages freed, by how long they were seen to live.
    pub lifetimes_pages: Lifetimes,
}

/// A machine that was watched for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Seconds of watching.
    pub seconds: f64,
    /// Pages by class when it began.
    pub before_pages: [u64; CLASS_COUNT],
    /// Everything allocated and freed.
    pub streams: Vec<PageStream>,
    /// Unmovable and reclaimable kernel pages, as a difference to the beginning, at equal steps.
    pub kernel_change_pages: Vec<f64>,
}

/// The longest that memory passes by: the end of bucket 16, 65.5 s.
const PASSING_BUCKET: usize = 16;
/// The first bucket of memory that settles at all: from 1,024 ms.
const SETTLING_BUCKET: usize = 11;
/// Kernel memory whose level is a smaller share of memory than this is left out.
const LEAST_RATIO: f64 = 1e-5;
/// A burst is at least this share of memory.
const LEAST_BURST_RATIO: f64 = 0.001;
/// A trend rises, over the recording, at least so many times what it scatters around its line.
const TREND_OVER_SCATTER: f64 = 3.0;
/// All levels together fit below this share of memory.
const MOST_RATIO: f64 = 0.95;
/// Below this share of free memory deletions cannot be told from reclaim.
const FREE_RATIO: f64 = 0.1;
/// Order of a 2 MB page.
const HUGE_ORDER: u8 = 9;
const SECONDS_PER_HOUR: f64 = 3600.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    User,
    Cache,
    Reclaimable,
    Kernel,
}

impl Group {
    fn of(class: PageClass) -> Option<Group> {
        match class {
            PageClass::Anon => Some(Group::User),
            PageClass::SlabReclaimable => Some(Group::Reclaimable),
            class if !is_placed(class) => None,
            class if is_movable(class) => Some(Group::Cache),
            _ => Some(Group::Kernel),
        }
    }
}

impl PageStream {
    fn class(&self) -> PageClass {
        match &self.origin {
            StreamOrigin::Before(class) => *class,
            StreamOrigin::Request(traced) => classify(traced),
        }
    }

    fn order(&self) -> u8 {
        match &self.origin {
            StreamOrigin::Before(_) => 0,
            StreamOrigin::Request(traced) => traced.order,
        }
    }

    /// Whether its pages were allocated as unmovable or reclaimable.
    pub fn is_kernel(&self) -> bool {
        match &self.origin {
            StreamOrigin::Before(class) => !is_movable(*class),
            StreamOrigin::Request(traced) => traced.migratetype != MigrateType::Movable as u8,
        }
    }

    fn is_before(&self) -> bool {
        matches!(self.origin, StreamOrigin::Before(_))
    }

    fn freed_within(&self, buckets: std::ops::Range<usize>) -> f64 {
        self.lifetimes_pages[buckets]
            .iter()
            .map(|&pages| pages as f64)
            .sum()
    }
}

/// Kernel pages that all streams have more than when the recording began.
pub fn kernel_change_pages(streams: &[PageStream]) -> f64 {
    let change = |own: &PageStream| own.allocated_pages as f64 - own.freed_pages as f64;
    let kernel = streams.iter().filter(|stream| stream.is_kernel());
    kernel.map(change).sum()
}

/// Memory that passes by: requests of one order.
#[derive(Clone, Copy, Debug, Default)]
struct Passing {
    freed_pages: f64,
    page_seconds: f64,
}

impl Observed {
    /// Pages that can be allocated, free ones included.
    fn memory_pages(&self) -> f64 {
        let counts = PageClass::all().filter(|&class| class.is_free() || is_placed(class));
        let pages: u64 = counts.map(|class| self.before_pages[class as usize]).sum();
        (pages as f64).max(1.0)
    }

    fn group(&self, group: Group) -> impl Iterator<Item = &PageStream> {
        let own = move |stream: &&PageStream| Group::of(stream.class()) == Some(group);
        self.streams.iter().filter(own)
    }

    /// Pages of a group at the end.
    fn level_pages(&self, group: Group) -> f64 {
        let before: u64 = PageClass::all()
            .filter(|&class| Group::of(class) == Some(group))
            .map(|class| self.before_pages[class as usize])
            .sum();
        let change: f64 = self
            .group(group)
            .map(|stream| stream.allocated_pages as f64 - stream.freed_pages as f64)
            .sum();
        (before as f64 + change).max(0.0)
    }

    /// The first bucket of memory that stays.
    fn staying_bucket(&self) -> usize {
        let quarter_ms = self.seconds * 1000.0 / 4.0;
        let fits = |bucket: &usize| (1u64 << bucket) as f64 <= quarter_ms;
        let last = (SETTLING_BUCKET..=PASSING_BUCKET).rev().find(fits);
        last.unwrap_or(SETTLING_BUCKET) + 1
    }

    /// A workload that goes on as this machine was seen to: to be run on the pages of the machine
    /// at the end of the recording ([`Workload::continues`]).
    pub fn fit(&self, name: &str) -> Workload {
        let mut kernel = Vec::new();
        for (group, class, name) in [
            (Group::Kernel, PageClass::KernelOther, "kernel memory"),
            (
                Group::Reclaimable,
                PageClass::SlabReclaimable,
                "reclaimable slab",
            ),
        ] {
            self.fit_kernel(group, class, name, &mut kernel);
        }
        self.fit_course(&mut kernel);
        let kernel_ratio: f64 = kernel.iter().map(|spec| spec.level_ratio).sum();
        let minutes = self.seconds / 60.0;
        Workload {
            name: name.to_string(),
            title: format!("This machine as it was seen for {minutes:.1} minutes"),
            continues: true,
            process: self
                .fit_user(MOST_RATIO - kernel_ratio)
                .into_iter()
                .collect(),
            kernel,
            cache: self.fit_cache(),
            swap: Default::default(),
            pins: Default::default(),
            deploy: Default::default(),
            huge: Default::default(),
        }
    }

    fn per_hour(&self, pages: f64) -> f64 {
        pages * SECONDS_PER_HOUR / self.seconds.max(1.0)
    }

    /// What stays of a group, and what passes by, by order.
    fn fit_kernel(&self, group: Group, class: PageClass, name: &str, kernel: &mut Vec<KernelSpec>) {
        let memory = self.memory_pages();
        let staying = self.staying_bucket();
        let mut passing = [Passing::default(); 11];
        for stream in self.group(group).filter(|stream| !stream.is_before()) {
            let own = &mut passing[usize::from(stream.order()).min(10)];
            for bucket in SETTLING_BUCKET..staying {
                let pages = stream.lifetimes_pages[bucket] as f64;
                own.freed_pages += pages;
                // The middle of a bucket whose ends are a factor of two apart.
                own.page_seconds += pages * (1u64 << bucket) as f64 * 0.75 / 1000.0;
            }
        }
        let held = |own: &Passing| own.page_seconds / self.seconds.max(1.0);
        let passing_pages: f64 = passing.iter().map(held).sum();
        let level = (self.level_pages(group) - passing_pages).max(0.0);
        let watched = (self.seconds - (1u64 << (staying - 1)) as f64 / 1000.0).max(1.0);
        let freed: f64 = self
            .group(group)
            .map(|stream| stream.freed_within(staying..stream.lifetimes_pages.len()))
            .sum();
        kernel.push(KernelSpec {
            churn_per_hour: freed * SECONDS_PER_HOUR / watched / level.max(1.0),
            ..source(&format!("{name} that stays"), class, level / memory, 0)
        });
        for (order, own) in (0..).zip(&passing) {
            let ratio = held(own) / memory;
            if ratio >= LEAST_RATIO {
                let life = own.page_seconds / own.freed_pages;
                kernel.push(KernelSpec {
                    churn_per_hour: SECONDS_PER_HOUR / life,
                    ..source(
                        &format!("{name} of order {order} that passes by"),
                        class,
                        ratio,
                        order,
                    )
                });
            }
        }
    }

    /// The course of kernel memory over the recording: a trend, and bursts above it.
    fn fit_course(&self, kernel: &mut [KernelSpec]) {
        let course = &self.kernel_change_pages;
        let memory = self.memory_pages();
        let Some(first) = kernel.first_mut().filter(|_| course.len() >= 10) else {
            return;
        };
        let (slope, rest) = line(course);
        let count = course.len() as f64;
        let scatter = (rest.iter().map(|r| r * r).sum::<f64>() / count).sqrt();
        let rise = slope * count;
        if rise > TREND_OVER_SCATTER * scatter && rise / memory > LEAST_RATIO {
            let second = self.seconds / count;
            first.trend_per_hour = slope / second * SECONDS_PER_HOUR / memory;
        }
        let peak = rest.iter().copied().fold(0.0, f64::max);
        let above = |r: &f64| *r > peak / 2.0;
        let bursts = rest
            .windows(2)
            .filter(|pair| !above(&pair[0]) && above(&pair[1]))
            .count() as f64;
        if bursts > 0.0 && peak / memory >= LEAST_BURST_RATIO {
            first.burst_ratio = peak / memory;
            first.burst_every_s = self.seconds / bursts;
            let seconds = rest.iter().filter(|r| above(r)).count() as f64;
            first.burst_s = (seconds / bursts * self.seconds / count).max(1.0);
        }
    }

    fn fit_user(&self, most_ratio: f64) -> Option<Process> {
        let level = self.level_pages(Group::User);
        let (mut freed, mut allocated, mut huge) = (0.0, 0.0, 0.0);
        for stream in self.group(Group::User) {
            freed += stream.freed_within(SETTLING_BUCKET..stream.lifetimes_pages.len());
            allocated += stream.allocated_pages as f64;
            if stream.order() >= HUGE_ORDER {
                huge += stream.allocated_pages as f64;
            }
        }
        let ratio = (level / self.memory_pages()).min(most_ratio);
        (ratio > LEAST_RATIO).then(|| Process {
            name: "user memory".into(),
            count: 1,
            memory_ratio: ratio,
            kind: UserMemory::Anon,
            huge_ratio: if allocated > 0.0 {
                huge / allocated
            } else {
                0.0
            },
            grow_s: 60.0,
            churn_per_hour: self.per_hour(freed) / level.max(1.0),
            restart_s: 0.0,
            threads: 0,
        })
    }

    /// Pages by which everything but the page cache grew.
    fn growth_of_others(&self) -> f64 {
        let others = self.streams.iter();
        let others = others.filter(|stream| Group::of(stream.class()) != Some(Group::Cache));
        let growth =
            |stream: &PageStream| stream.allocated_pages as f64 - stream.freed_pages as f64;
        others.map(growth).sum::<f64>().max(0.0)
    }

    fn fit_cache(&self) -> PageCacheSpec {
        let memory = self.memory_pages();
        let (mut read, mut freed) = (0.0, 0.0);
        for stream in self.group(Group::Cache) {
            read += stream.allocated_pages as f64;
            freed += stream.freed_pages as f64;
        }
        let free = PageClass::all().filter(|class| class.is_free());
        let free: u64 = free.map(|class| self.before_pages[class as usize]).sum();
        let dropped = if free as f64 / memory > FREE_RATIO {
            freed
        } else {
            // What others grow by is reclaimed too.
            (freed - read - self.growth_of_others()).max(0.0)
        };
        PageCacheSpec {
            read_per_hour: self.per_hour(read) / memory,
            drop_per_hour: self.per_hour(dropped) / memory,
            ..PageCacheSpec::default()
        }
    }
}

fn source(name: &str, class: PageClass, level_ratio: f64, order: u32) -> KernelSpec {
    KernelSpec {
        name: name.to_string(),
        class: class.name().to_string(),
        level_ratio,
        order,
        ..KernelSpec::default()
    }
}

/// The slope a step of the line that fits best, and what is left above it.
fn line(values: &[f64]) -> (f64, Vec<f64>) {
    let count = values.len() as f64;
    let (mean_x, mean_y) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let (mut xy, mut xx) = (0.0, 0.0);
    for (x, y) in values.iter().enumerate() {
        xy += (x as f64 - mean_x) * (y - mean_y);
        xx += (x as f64 - mean_x).powi(2);
    }
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    let rest = values.iter().enumerate();
    let rest = rest.map(|(x, y)| y - mean_y - slope * (x as f64 - mean_x));
    (slope, rest.collect())
}

#[cfg(test)]
mod tests;
