// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options in the environment variable `AMPLE_MALLOC`: `name=value` pairs with commas between.

use crate::heap::{HeapOptions, ReleasePolicy};
use crate::os::numa;
use crate::os::report;
use crate::os::vm::real::HugeMode;
use crate::watch::limits::Limit;
use crate::watch::stats::StatsForm;

/// A path, with `%p` for the process id.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    bytes: [u8; 256],
    len: usize,
}

impl Path {
    /// No path.
    pub const NONE: Path = Path {
        bytes: [0; 256],
        len: 0,
    };

    /// A path of at most 255 bytes.
    pub fn new(text: &str) -> Option<Path> {
        if text.is_empty() || text.len() > 255 {
            return None;
        }
        let mut path = Path {
            bytes: [0; 256],
            len: text.len(),
        };
        path.bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(path)
    }

    /// Whether there is a path.
    pub const fn is_some(&self) -> bool {
        self.len > 0
    }

    fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }

    /// Whether the process id is part of the path.
    pub fn names_process(&self) -> bool {
        self.text().contains("%p")
    }

    /// The path of this process, followed by `ending` and a zero byte.
    pub fn expand(&self, ending: &str) -> report::Line {
        use core::fmt::Write;
        let mut name = report::Line::new();
        for (index, part) in self.text().split("%p").enumerate() {
            if index > 0 {
                // SAFETY: no preconditions.
                let _ = write!(name, "{}", unsafe { libc::getpid() });
            }
            let _ = name.write_str(part);
        }
        let _ = write!(name, "{ending}\0");
        name
    }

    /// Creates the file, its name followed by `ending`; a descriptor, or -1 with one line of
    /// complaint.
    pub fn create(&self, ending: &str) -> i32 {
        let name = self.expand(ending);
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        // SAFETY: the name ends in a zero byte.
        let fd = unsafe { libc::open(name.as_c(), flags, 0o644) };
        if fd < 0 {
            report::warn(format_args!(
                "cannot create {}: error {}",
                name.text(),
                crate::os::sys::errno()
            ));
        }
        fd
    }
}

/// Every option, by default or as the environment sets it.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How hugepages are asked for.
    pub huge: HugeMode,
    /// log2 of the size of the HugeTLB pages that the heap is to lie on; 0 for none.
    pub hugetlb_shift: u32,
    /// Whether NUMA nodes have heaps of their own.
    pub numa: numa::Mode,
    /// The page heap's switches.
    pub heap: HeapOptions,
    /// Whether free memory goes back to the system by itself.
    pub release_enabled: bool,
    /// How much of it.
    pub release: ReleasePolicy,
    /// Beyond this much memory free memory goes back at once.
    pub soft_limit: Limit,
    /// Beyond this much memory requests fail.
    pub limit: Limit,
    /// A steady release on top, in bytes per second.
    pub release_rate_bytes: usize,
    /// Broken hugepages rebuilt per round.
    pub collapse_hugepages: usize,
    /// Whether hugepages that the system maps with native pages are looked for.
    pub contiguity: bool,
    /// Whether a background thread may be started.
    pub background: bool,
    /// Whether restartable sequences may be used.
    pub rseq: bool,
    /// Limit of one CPU's cache.
    pub cpu_cache_bytes: usize,
    /// Whether every free is checked in full.
    pub check: bool,
    /// One slow call in so many makes a guarded object; 0 for none.
    pub guard: u32,
    /// Mean bytes between two samples of the heap profile; 0 for none.
    pub profile_bytes: usize,
    /// Whether statistics are written at exit.
    pub stats_at_exit: bool,
    /// In what form.
    pub stats_form: StatsForm,
    /// Where statistics go instead of stderr.
    pub stats_to: Path,
    /// Where the statistics that a signal asks for go instead.
    pub signal_to: Path,
    /// Where the heap profile goes at exit.
    pub profile_to: Path,
    /// Where the page-heap trace goes; recording starts with the program.
    pub record: Path,
    /// The Unix socket that statistics are served on.
    pub socket: Path,
    /// The signal that dumps statistics; 0 for none.
    pub signal: i32,
}

impl Options {
    /// What holds without options.
    pub const DEFAULT: Options = Options {
        huge: HugeMode::ByNeed,
        hugetlb_shift: 0,
        numa: numa::Mode::Off,
        heap: HeapOptions::DEFAULT,
        release_enabled: true,
        release: ReleasePolicy::DEFAULT,
        soft_limit: Limit::Bytes(0),
        limit: Limit::Bytes(0),
        release_rate_bytes: 0,
        collapse_hugepages: 8,
        contiguity: true,
        background: false,
        rseq: true,
        cpu_cache_bytes: crate::cache::DEFAULT_BYTES,
        check: false,
        guard: 2000,
        profile_bytes: 0,
        stats_at_exit: false,
        stats_form: StatsForm::Text,
        stats_to: Path::NONE,
        signal_to: Path::NONE,
        profile_to: Path::NONE,
        record: Path::NONE,
        socket: Path::NONE,
        signal: 0,
    };

    /// The options of this process; bad ones are reported in one line and ignored.
    pub fn from_environment() -> Options {
        let mut options = Options::DEFAULT;
        if let Some(text) = environment(c"AMPLE_MALLOC") {
            options.parse(text);
        }
        options
    }

    /// Applies a list of `name=value` pairs.
    pub fn parse(&mut self, text: &str) {
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, "1"));
            if name == "help" {
                report::write_all(2, HELP.as_bytes());
            } else if self.set(name.trim(), value.trim()).is_none() {
                report::warn(format_args!(
                    "option \"{pair}\" in AMPLE_MALLOC is unknown or has a bad value and is \
                     ignored; AMPLE_MALLOC=help lists all"
                ));
            }
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "huge" => {
                self.huge = match value {
                    "need" => HugeMode::ByNeed,
                    "always" => HugeMode::Always,
                    "system" => HugeMode::System,
                    "never" => HugeMode::Never,
                    _ => return None,
                }
            }
            "hugetlb" => {
                self.hugetlb_shift = match value {
                    "0" => 0,
                    "2m" => 21,
                    "1g" => 30,
                    _ => return None,
                }
            }
            "numa" => {
                self.numa = match value {
                    "0" | "off" => numa::Mode::Off,
                    "1" | "on" => numa::Mode::System,
                    _ => numa::Mode::Pretended(number(value, numa::MAX_NODES)? as u8),
                }
            }
            "release" => self.release_enabled = switch(value)?,
            "window" => self.heap.window_s = number(value, 3600)? as u32,
            "keep_percent" => self.release.keep_share_percent = number(value, 1000)? as u32,
            "keep" => self.release.keep_pages = size(value)? >> crate::units::PAGE_SHIFT,
            "start_percent" => self.release.start_share_percent = number(value, 1000)? as u32,
            "huge_floor" => self.release.huge_floor_percent = number(value, 100)? as u32,
            "soft_limit" => self.soft_limit = limit(value)?,
            "limit" => self.limit = limit(value)?,
            "release_rate" => self.release_rate_bytes = size(value)?,
            "collapse" => self.collapse_hugepages = number(value, 1024)?,
            "contiguity" => self.contiguity = switch(value)?,
            "background" => self.background = switch(value)?,
            "rseq" => self.rseq = switch(value)?,
            "cpu_cache" => self.cpu_cache_bytes = size(value)?,
            "regions" => self.heap.regions = switch(value)?,
            "density" => self.heap.split_by_density = switch(value)?,
            "hugecache" => self.heap.cache_min_hugepages = number(value, 1 << 20)?,
            "check" => self.check = switch(value)?,
            "guard" => self.guard = number(value, 1 << 20)? as u32,
            "profile" => self.profile_bytes = size(value)?,
            "stats" => {
                self.stats_at_exit = value != "0";
                self.stats_form = match value {
                    "0" | "1" | "text" => StatsForm::Text,
                    "json" => StatsForm::Json,
                    "metrics" => StatsForm::Metrics,
                    _ => return None,
                };
            }
            "stats_to" => self.stats_to = Path::new(value)?,
            "signal_to" => self.signal_to = Path::new(value)?,
            "profile_to" => self.profile_to = Path::new(value)?,
            "record" => self.record = Path::new(value)?,
            "socket" => self.socket = Path::new(value)?,
            "signal" => self.signal = number(value, 64)? as i32,
            _ => return None,
        }
        Some(())
    }
}

/// What `AMPLE_MALLOC=help` prints.
pub const HELP: &str = "\
AMPLE_MALLOC=name=value,name=value,... with sizes in bytes or with a suffix k, m, g:
  huge=need|always|system|never  how hugepages are asked for [need: once the heap exceeds 4 MiB]
  hugetlb=2m|1g|0      take memory from the pool of HugeTLB pages while it lasts; what was taken
                       is given back only at exit [0]
  numa=1|0|N           a heap for each NUMA node, on memory of that node; what a node has too little
                       of comes from others. 2 to 8 pretend to have so many nodes: for tests [0]
  release=1|0          give free memory back by itself [1]
  window=N             seconds over which the peak of use is looked for; above 2 nothing goes back
                       in the call that frees it [2]
  keep_percent=N       free memory kept beyond that peak, % of it [10]
  keep=SIZE            and at least this much, or as much as that peak if it is less [8m]
  start_percent=N      but nothing is given back until this much is free, % of the peak; once use
                       has fallen below three quarters of the most it ever was, 50 at most [75]
  huge_floor=N         of the memory kept, at least N % stays on whole hugepages, or 50 once so much
                       was free for 16 s or less than an eighth of the most ever used is in use; 100
                       never breaks one, 0 breaks any [92]
  soft_limit=SIZE|N%   beyond so much memory, or N % of what the control group may use, free memory
                       goes back at once; 0 is none [0]
  limit=SIZE|N%        beyond that, requests fail with ENOMEM after all that is free has gone
                       back [0]
  release_rate=SIZE    give back this much each second on top, whatever the peak [0]
  collapse=N           rebuild up to N hugepages of native pages a round; 0 is off [8]
  contiguity=1|0       look which hugepages the system has mapped with native pages, use those last,
                       and rebuild them while it has hugepages [1]
  background=1|0       in programs with threads, do this work on a thread of its own [0]
  rseq=1|0             per-CPU caches with restartable sequences, if the C library has them [1]
  cpu_cache=SIZE       limit of each CPU's cache [1536k]
  regions=1|0          1 GiB regions against the slack of spans above 1 MiB [1]
  density=1|0          spans of many and of few objects on separate hugepages [1]
  hugecache=N          empty hugepages kept whatever the demand [4]
  check=1|0            look around every freed object for what was written there, and for the object
                       in all caches: slower [0]
  guard=N              one small object in N slow calls on a page of its own, between pages that
                       cannot be accessed (in 32 N with rseq=0, where every call is
                       slow); 0 is off [2000]
  profile=SIZE         heap profile, one sample each SIZE bytes on average; 0 is off [0]
  stats=1|json|metrics|0  statistics at exit, on stderr; metrics are OpenMetrics [0]
  stats_to=PATH        statistics go to this file; %p is the process id [stderr]
  signal=N             signal N writes statistics; by sigqueue with 1, 2 or 3 the profile of what
                       is live, of the peak or of lifetimes [0: none]
  signal_to=PATH       to this file [where stats_to says]
  profile_to=PATH      profiles of what is live, and with .peak and .lifetime after the name, are
                       written there at exit, in the text format of pprof
  record=PATH          write a trace of the page heap there, for a replay
  socket=PATH          statistics on a Unix socket that only the owner may use: a page of text, and
                       by HTTP / the same, /metrics OpenMetrics, /json one object [none]
  help                 print this
";

fn switch(value: &str) -> Option<bool> {
    match value {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

fn limit(value: &str) -> Option<Limit> {
    match value.strip_suffix('%') {
        Some(percent) => number(percent, 100).map(Limit::Percent),
        None => size(value).map(Limit::Bytes),
    }
}

fn number(value: &str, max: usize) -> Option<usize> {
    value.parse().ok().filter(|&number| number <= max)
}

fn size(value: &str) -> Option<usize> {
    let digits = value.trim_end_matches(|last: char| !last.is_ascii_digit());
    let shift = match &value[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    number(digits, 1 << 44)?
        .checked_shl(shift)
        .filter(|&bytes| bytes <= 1 << 46)
}

/// The value of an environment variable; nothing in a program that runs with raised privileges.
pub fn environment(name: &core::ffi::CStr) -> Option<&'static str> {
    // SAFETY: no preconditions.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: the name is a C string; the environment is not changed during the start.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv gives a C string.
    unsafe { core::ffi::CStr::from_ptr(value) }.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_bad_ones_are_refused() {
        let mut options = Options::DEFAULT;
        assert!(options.set("huge", "always").is_some());
        assert_eq!(options.huge, HugeMode::Always);
        assert!(options.set("keep", "16m").is_some());
        assert_eq!(options.release.keep_pages, 2048);
        assert!(options.set("release", "off").is_some());
        assert!(!options.release_enabled);
        assert!(options.set("limit", "80%").is_some());
        assert_eq!(options.limit, Limit::Percent(80));
        assert!(options.set("soft_limit", "1g").is_some());
        assert_eq!(options.soft_limit, Limit::Bytes(1 << 30));
        for (name, value) in [
            ("limit", "101%"),
            ("limit", "%"),
            ("soft_limit", "10m%"),
            ("huge", "maybe"),
            ("keep", "16x"),
            ("keep", ""),
            ("keep", "99999999999999999999"),
            ("huge_floor", "101"),
            ("release", "2"),
            ("numa", "9"),
            ("nonsense", "1"),
            ("keep", "\u{20ac}m"),
        ] {
            assert!(options.set(name, value).is_none(), "{name}={value}");
        }
    }

    #[test]
    fn the_help_names_every_option_and_no_other() {
        let named = HELP.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("  ")?.split_once('=')?;
            name.bytes().all(|byte| byte != b' ').then_some(name)
        });
        let named: Vec<&str> = named.collect();
        let source = include_str!("options.rs");
        let (_, set) = source.split_once("match name {").expect("it is above");
        let (set, _) = set
            .split_once("_ => return None,\n        }\n        Some")
            .expect("its end");
        let known = set.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("            \"")?.split_once("\" =>")?;
            Some(name)
        });
        let mut known: Vec<&str> = known.collect();
        assert_eq!(known.len(), 30);
        known.retain(|name| !named.contains(name));
        assert_eq!((known, named.len()), (vec![], 30));
    }
}
