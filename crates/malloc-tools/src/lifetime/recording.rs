// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of all allocations of a program; `bench/malloc/lifetimes.c` says the format.

use std::collections::HashMap;
use std::io::{self, Read};

const RECORD_BYTES: usize = 32;
/// What a program may have at a time: 16 TiB, an eighth of the address space.
const MOST_LIVE_BYTES: u64 = 1 << 44;
/// How long it may run: a day.
const MOST_NS: u64 = 86_400_000_000_000;

/// One object.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// What was asked for.
    pub bytes: u64,
    /// Hash of the two innermost return addresses.
    pub shallow: u32,
    /// Hash of the eight innermost return addresses.
    pub deep: u32,
    /// What the program allocated from this object's birth to its death; `u64::MAX` without one.
    pub lived_bytes: u64,
}

/// An object is made or freed.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Time since the first call.
    pub time_ns: u64,
    /// Number of the object.
    pub object: u32,
    /// Whether it is freed.
    pub frees: bool,
}

/// All objects of a run and what happened to them, in order.
#[derive(Debug, Default)]
pub struct AllocationRun {
    pub objects: Vec<Object>,
    pub calls: Vec<Call>,
    allocated_bytes: u64,
    live_bytes: u64,
    peak_live_bytes: u64,
}

impl AllocationRun {
    /// Reads at most so many calls. A free of what the recording does not show being made is left
    /// out; an address that is handed out again was freed before.
    ///
    /// # Errors
    /// If reading fails, the file ends within a record, or a record is damaged.
    pub fn read(mut source: impl Read, calls: usize) -> io::Result<AllocationRun> {
        let mut bytes = Vec::new();
        let most = (calls as u64).saturating_mul(RECORD_BYTES as u64);
        source.by_ref().take(most).read_to_end(&mut bytes)?;
        let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
        if !rest.is_empty() {
            let text = format!("the last record is cut off after {} bytes", rest.len());
            return Err(bad(text));
        }
        let mut recording = AllocationRun::default();
        // Address to number and birth on the clock of allocated bytes.
        let mut live: HashMap<u64, (u32, u64)> = HashMap::new();
        let mut start_ns = None;
        for (index, record) in records.iter().enumerate() {
            let word = |at: usize| {
                let word = record[at..at + 8].try_into().expect("eight bytes");
                u64::from_le_bytes(word)
            };
            let [time_ns, address, bytes, sites] = [0, 8, 16, 24].map(word);
            if time_ns == 0 {
                break;
            }
            // Threads may note the time in another order than their calls.
            let time_ns = time_ns.saturating_sub(*start_ns.get_or_insert(time_ns));
            let dead = live.remove(&address);
            if let Some((object, born_bytes)) = dead {
                recording.die(time_ns, object, born_bytes);
            }
            if time_ns > MOST_NS || bytes > MOST_LIVE_BYTES - recording.live_bytes {
                return Err(bad(format!("record {index} is damaged")));
            }
            if bytes > 0 {
                let born = (recording.objects.len() as u32, recording.allocated_bytes);
                live.insert(address, born);
                recording.be_born(time_ns, bytes, sites);
            }
        }
        Ok(recording)
    }

    fn be_born(&mut self, time_ns: u64, bytes: u64, sites: u64) {
        self.calls.push(Call {
            time_ns,
            object: self.objects.len() as u32,
            frees: false,
        });
        self.objects.push(Object {
            bytes,
            shallow: sites as u32,
            deep: (sites >> 32) as u32,
            lived_bytes: u64::MAX,
        });
        self.allocated_bytes = self.allocated_bytes.saturating_add(bytes);
        self.live_bytes += bytes;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
    }

    fn die(&mut self, time_ns: u64, object: u32, born_bytes: u64) {
        let dead = &mut self.objects[object as usize];
        dead.lived_bytes = self.allocated_bytes - born_bytes;
        self.live_bytes -= dead.bytes;
        self.calls.push(Call {
            time_ns,
            object,
            frees: true,
        });
    }

    /// The most bytes that the program ever had.
    pub const fn peak_live_bytes(&self) -> u64 {
        self.peak_live_bytes
    }
}

/// A record, of the same place at both depths.
#[cfg(test)]
pub fn encoded(time_ns: u64, address: u64, bytes: u64, site: u32) -> Vec<u8> {
    let sites = u64::from(site) << 32 | u64::from(site);
    [time_ns, address, bytes, sites]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_live_from_their_call_to_the_free_or_to_the_next_use_of_the_address() {
        let records = [
            (10, 0x1000, 100, 7),
            (11, 0x2000, 50, 8),
            (12, 0x3000, 0, 0),
            (13, 0x1000, 0, 0),
            (14, 0x2000, 30, 9),
            (0, 0, 0, 0),
            (16, 0x2000, 0, 0),
        ];
        let bytes: Vec<u8> = records
            .iter()
            .flat_map(|&(time, address, size, site)| encoded(time, address, size, site))
            .collect();
        let recording = AllocationRun::read(&bytes[..], usize::MAX).unwrap();
        let lived: Vec<u64> = recording.objects.iter().map(|o| o.lived_bytes).collect();
        assert_eq!(lived, [150, 50, u64::MAX]);
        let calls: Vec<(u64, u32, bool)> = recording
            .calls
            .iter()
            .map(|call| (call.time_ns, call.object, call.frees))
            .collect();
        let expected = [
            (0, 0, false),
            (1, 1, false),
            (3, 0, true),
            (4, 1, true),
            (4, 2, false),
        ];
        assert_eq!(calls, expected);
        assert_eq!(recording.peak_live_bytes(), 150);
        assert_eq!(AllocationRun::read(&bytes[..], 2).unwrap().calls.len(), 2);
        assert!(AllocationRun::read(&bytes[..40], usize::MAX).is_err());
        for (time, size) in [(u64::MAX, 8), (11, u64::MAX)] {
            let mut damaged = encoded(10, 0x1000, 100, 7);
            damaged.extend(encoded(time, 0x2000, size, 7));
            let error = AllocationRun::read(&damaged[..], usize::MAX).unwrap_err();
            assert!(error.to_string().contains("record 1"), "{error}");
        }
    }
}
