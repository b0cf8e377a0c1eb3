// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project's own trace format: delta-coded, compressed in checked blocks.
//!
//! ```text
//! file   = "AMPLTRC1", u32 header length, header (JSON: TraceHeader), u32 CRC of the header,
//!          block*, end
//! block  = u32 records (> 0), u32 raw bytes, u32 stored bytes, u32 CRC-32 of the raw bytes,
//!          zstd frame
//! end    = u32 0, u64 records in all
//! record = control byte, [gap], address delta, [extras]
//! ```
//! All integers are little-endian. The control byte holds the kind (2 bits), which of four recent
//! addresses the delta is against (2 bits), whether extras follow (1 bit) and the gap (3 bits; 7:
//! a varint follows). Deltas are zigzag varints. A run on built-in programs takes 1 to 4 bytes an
//! access.

mod header;
mod reader;
mod record;
mod writer;

pub use header::TraceHeader;
pub use reader::TraceReader;
pub use writer::TraceWriter;

pub(crate) use writer::write_header;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, AccessKind, Consumer, Program, Recorder, Scale, TraceError, programs};
    use proptest::prelude::*;

    fn access() -> impl Strategy<Value = Access> {
        (
            any::<u64>(),
            any::<u16>(),
            any::<u16>(),
            0usize..3,
            any::<u8>(),
            any::<u8>(),
            any::<bool>(),
        )
            .prop_map(|(va, gap, dep, kind, bytes, thread, joined)| {
                let kind = [AccessKind::Load, AccessKind::Store, AccessKind::Fetch][kind];
                Access {
                    va,
                    gap,
                    dep,
                    kind,
                    bytes,
                    thread,
                    joined,
                }
            })
    }

    fn written(accesses: &[Access]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = TraceWriter::new(&mut file, &TraceHeader::default()).unwrap();
        assert!(writer.consume(accesses));
        writer.finish().unwrap();
        file
    }

    fn read_all(file: &[u8]) -> Result<Vec<Access>, TraceError> {
        let mut reader = TraceReader::new(file)?;
        let (mut all, mut block) = (Vec::new(), Vec::new());
        while reader.next_block(&mut block)? {
            all.extend_from_slice(&block);
        }
        Ok(all)
    }

    proptest! {
        #[test]
        fn reads_back_what_was_written(accesses in proptest::collection::vec(access(), 0..300)) {
            prop_assert_eq!(read_all(&written(&accesses)).unwrap(), accesses);
        }

        #[test]
        fn damage_is_found_or_harmless(
            accesses in proptest::collection::vec(access(), 1..100),
            place in any::<proptest::sample::Index>(),
            flip in 1u8..=255,
        ) {
            let mut file = written(&accesses);
            let at = place.index(file.len());
            file[at] ^= flip;
            if let Ok(read) = read_all(&file) {
                prop_assert_eq!(read, accesses, "byte {} changed and nobody noticed", at);
            }
        }

        #[test]
        fn a_cut_file_is_an_error(
            accesses in proptest::collection::vec(access(), 1..50),
            place in any::<proptest::sample::Index>(),
        ) {
            let file = written(&accesses);
            let cut = place.index(file.len());
            prop_assert!(read_all(&file[..cut]).is_err());
        }
    }

    #[test]
    fn programs_take_at_most_four_bytes_an_access() {
        for name in programs::NAMES {
            let mut program = programs::by_name(name, Scale::Tiny, 1).unwrap();
            let header = TraceHeader {
                program: (*name).into(),
                regions: program.regions().to_vec(),
                partial: false,
            };
            let mut file = Vec::new();
            let mut writer = TraceWriter::new(&mut file, &header).unwrap();
            let mut recorder = Recorder::new(&mut writer, 200_000);
            program.run(&mut recorder);
            recorder.flush();
            let (records, bytes) = writer.finish().unwrap();
            assert!(
                bytes <= records * 4,
                "{name}: {bytes} bytes for {records} records"
            );
        }
        // Also for the worst case, uniformly random over 32 GB.
        let mut gups = programs::Gups::new(32 << 30, 1);
        let mut file = Vec::new();
        let mut writer = TraceWriter::new(&mut file, &TraceHeader::default()).unwrap();
        let mut recorder = Recorder::new(&mut writer, 200_000);
        gups.run(&mut recorder);
        recorder.flush();
        let (records, bytes) = writer.finish().unwrap();
        assert!(bytes <= records * 4, "{bytes} bytes for {records} records");
    }
}
