// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loaded BPF programs that count allocations and lifetimes of pages.

use super::events::failed;
use crate::traffic::{LIFETIME_BUCKETS, TrafficCounts, TrafficOrigin};
use crate::{BpfReader, HostError, ReaderChoice, Root, Scan, ScanOptions, System, scan_live};
use ample_pfn::{CLASS_COUNT, PageClass};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use std::mem::MaybeUninit;

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unsafe_op_in_unsafe_fn,
    unreachable_pub
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/traffic.skel.rs"));
}

/// `STREAMS` and `STREAM_BITS` of the program.
const STREAMS: u32 = 1024;
/// Words of followed frames at most: 8 MB.
const MOST_WORDS: u64 = 1 << 20;
/// At least one frame of so many is followed.
const LEAST_SHIFT: u32 = 4;
const WORD: usize = 8;

/// A recording under way.
pub struct TrafficRecorder {
    skeleton: skeleton::TrafficSkel<'static>,
    gfp_names: Vec<(u32, String)>,
    shift: u32,
    scan: Scan,
}

impl TrafficRecorder {
    /// Scans the machine and begins to count.
    ///
    /// # Errors
    /// [`HostError`] when the BPF programs cannot be used here.
    pub fn start() -> Result<TrafficRecorder, HostError> {
        let root = Root::live();
        let system = System::read(&root)?;
        let memory_map = BpfReader::open(&root, &system)?.memory_map();
        let gfp_names = gfp_names()?;
        let span = system.layout.span().end.0;
        let shift = shift(span);
        let groups = span.div_ceil(1 << shift);
        libbpf_rs::set_print(None);
        let slot = Box::leak(Box::new(MaybeUninit::uninit()));
        let refused = failed("the kernel refused the program");
        let mut open = skeleton::TrafficSkelBuilder::default()
            .open(slot)
            .map_err(&refused)?;
        let entries = u32::try_from(groups.max(1)).expect("at most a million");
        open.maps
            .frames
            .set_max_entries(entries)
            .map_err(&refused)?;
        let constants = open.maps.rodata_data.as_deref_mut().expect("mapped");
        constants.memory_map = memory_map;
        constants.sample_shift = shift;
        let mut skeleton = open.load().map_err(&refused)?;
        skeleton
            .attach()
            .map_err(failed("cannot attach to the tracepoint"))?;
        let scan = scan_live(&ScanOptions {
            reader: ReaderChoice::Bpf,
            ..ScanOptions::default()
        })?;
        let mut recorder = TrafficRecorder {
            skeleton,
            gfp_names,
            shift,
            scan,
        };
        recorder.begin(entries)?;
        Ok(recorder)
    }

    /// Tells the programs what is in the frames that they follow, and lets them count.
    fn begin(&mut self, entries: u32) -> Result<(), HostError> {
        let mut words = vec![0u64; entries as usize];
        for (range, class) in self.scan.pages.iter() {
            if class.is_free() || class == PageClass::Hole {
                continue;
            }
            let (first, last) = (range.start.0 >> self.shift, range.end.0 >> self.shift);
            for group in first..=last {
                let pfn = followed_frame(group, self.shift);
                if range.start.0 <= pfn && pfn < range.end.0 {
                    words[group as usize] = class as u64 + 1;
                }
            }
        }
        let keys: Vec<u8> = (0..entries).flat_map(u32::to_ne_bytes).collect();
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        self.skeleton
            .maps
            .frames
            .update_batch(&keys, &bytes, entries, MapFlags::ANY, MapFlags::ANY)
            .map_err(failed("cannot fill the table of frames"))?;
        let shared = self.shared();
        shared.next_stream = CLASS_COUNT as u32;
        shared.armed = 1;
        Ok(())
    }

    /// The machine when the recording began.
    pub fn scan(&self) -> &Scan {
        &self.scan
    }

    /// Everything counted so far.
    ///
    /// # Errors
    /// [`HostError::Bpf`] when the counters cannot be read.
    pub fn counts(&mut self) -> Result<Vec<TrafficCounts>, HostError> {
        let read = failed("cannot read the counters");
        let mut all = Vec::new();
        for stream in 0..CLASS_COUNT as u32 {
            let class = PageClass::from_u8(stream as u8).expect("classes are dense");
            all.extend(self.stream(stream, TrafficOrigin::Before(class))?);
        }
        let keys: Vec<Vec<u8>> = self.skeleton.maps.kinds.keys().collect();
        for key in keys {
            let index = self.skeleton.maps.kinds.lookup(&key, MapFlags::ANY);
            let index = index.map_err(&read)?;
            let half = |at: usize| u16::from_ne_bytes([key[at], key[at + 1]]);
            let gfp = u32::from_ne_bytes([key[0], key[1], key[2], key[3]]);
            let origin = TrafficOrigin::Request {
                gfp: self.name_flags(gfp),
                order: half(4) as u8,
                migratetype: half(6) as u8,
            };
            if let Some(stream) = index.and_then(|bytes| bytes.try_into().ok()) {
                all.extend(self.stream(u32::from_ne_bytes(stream), origin)?);
            }
        }
        Ok(all)
    }

    /// The counters of one stream; `None` when nothing was counted.
    fn stream(
        &self,
        stream: u32,
        origin: TrafficOrigin,
    ) -> Result<Option<TrafficCounts>, HostError> {
        if stream >= STREAMS {
            return Ok(None);
        }
        let map = &self.skeleton.maps.counters;
        let bytes = map
            .lookup(&stream.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed("cannot read the counters"))?
            .unwrap_or_default();
        let scale = 1u64 << self.shift;
        let mut words = bytes
            .chunks_exact(WORD)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")) * scale);
        let mut next = || words.next().unwrap_or(0);
        let counts = TrafficCounts {
            origin,
            allocated_pages: next(),
            freed_pages: next(),
            lifetimes_pages: [(); LIFETIME_BUCKETS].map(|()| next()),
        };
        Ok((counts.allocated_pages + counts.freed_pages > 0).then_some(counts))
    }

    fn name_flags(&self, gfp: u32) -> String {
        let set = |(bit, _): &&(u32, String)| gfp >> bit & 1 == 1;
        let names: Vec<&str> = self
            .gfp_names
            .iter()
            .filter(set)
            .map(|(_, name)| name.as_str())
            .collect();
        names.join("|")
    }

    /// Allocations that were not counted, because there were too many kinds of them.
    pub fn lost(&mut self) -> u64 {
        self.shared().lost
    }

    fn shared(&mut self) -> &mut skeleton::types::bss {
        self.skeleton
            .maps
            .bss_data
            .as_deref_mut()
            .expect("mapped when loaded")
    }
}

/// One frame of 2^shift is followed.
fn shift(frames: u64) -> u32 {
    let mut shift = LEAST_SHIFT;
    while frames.div_ceil(1 << shift) > MOST_WORDS {
        shift += 1;
    }
    shift
}

/// The frame of a group that is followed, as `followed()` of the program picks it.
fn followed_frame(group: u64, shift: u32) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    (group << shift) | group.wrapping_mul(SPREAD) >> (u64::BITS - shift)
}

/// Bit and name of each allocation flag of the running kernel, from the enumeration of its bits
/// (`include/linux/gfp_types.h`, since 6.10).
fn gfp_names() -> Result<Vec<(u32, String)>, HostError> {
    let btf = Btf::from_vmlinux().map_err(failed("cannot read the kernel's types"))?;
    let mut names = Vec::new();
    for list in btf.type_by_kind::<Enum<'_>>() {
        for member in list.iter() {
            let name = member.name.map(|name| name.to_string_lossy());
            let flag = name.as_deref().and_then(|name| {
                let flag = name.strip_prefix("___GFP_")?.strip_suffix("_BIT")?;
                Some(format!("__GFP_{flag}"))
            });
            if let (Some(flag), Ok(bit)) = (flag, u32::try_from(member.value)) {
                names.push((bit, flag));
            }
        }
        if !names.is_empty() {
            return Ok(names);
        }
    }
    let what = "the kernel's types do not name the bits of its allocation flags (Linux 6.10)";
    Err(HostError::Bpf(what.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_frame_of_each_group_is_followed_and_large_machines_follow_fewer() {
        for shift in [4, 7] {
            for group in 0..4096 {
                assert_eq!(followed_frame(group, shift) >> shift, group);
            }
        }
        assert_eq!(shift(6 << 20), 4);
        let terabyte = shift(1 << 28);
        assert!((1u64 << 28) >> terabyte <= MOST_WORDS);
    }
}
