// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use ample_kit::random::SplitMix64;
use proptest::prelude::*;

/// What of a random word is an access's own.
const ADDRESS_GAP_AND_MODE: u64 = !(1 << 63 | 3 << 59 | 7 << 56);

/// Words that the recorder could write: whole records.
fn records() -> impl Strategy<Value = Vec<u64>> {
    let access = (any::<u64>(), 0..3u64).prop_map(|(word, kind)| {
        // Bit 63 is never set, and no access has more than 64 bytes.
        let (own, bytes) = (word & ADDRESS_GAP_AND_MODE, word >> 7 & 6);
        vec![own | kind << 59 | bytes << 56]
    });
    let control = (1..=13u64, 1..=4u64, any::<u64>(), any::<[u64; 16]>()).prop_map(
        |(operation, pairs, payload, more)| {
            let word = 3 << 59 | pairs << 56 | operation << 48 | payload & 0xffff_ffff_ffff;
            let length = crate::wire::record_words(word);
            [word].into_iter().chain(more).take(length).collect()
        },
    );
    let record = prop_oneof![9 => access, 1 => control];
    prop::collection::vec(record, 0..200).prop_map(|records| records.concat())
}

fn written(parts: &[(usize, Vec<u64>)], cpus: usize) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("machine");
    let header = FileHeader {
        kernel: "bzImage".into(),
        cpus,
        ..FileHeader::default()
    };
    let mut writer = RecordingWriter::create(&path, &header).unwrap();
    for (cpu, words) in parts {
        writer.put(*cpu, words).unwrap();
    }
    let told = writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(told, bytes.len() as u64);
    bytes
}

/// The words of each CPU, and how the file ended.
fn read(bytes: &[u8]) -> Result<(Vec<Vec<u64>>, ReadEnd), FileError> {
    let mut reader = RecordingReader::new(bytes)?;
    let mut all = vec![Vec::new(); reader.header().cpus];
    loop {
        match reader.next_part()? {
            Ok((cpu, words)) => all[cpu].extend_from_slice(words),
            Err(end) => return Ok((all, end)),
        }
    }
}

/// All words in the order of the file, each with its CPU.
fn in_order(bytes: &[u8]) -> Vec<(usize, u64)> {
    let mut reader = RecordingReader::new(bytes).unwrap();
    let mut all = Vec::new();
    while let Ok((cpu, words)) = reader.next_part().unwrap() {
        all.extend(words.iter().map(|&word| (cpu, word)));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn words_come_back(first in records(), second in records(), third in records()) {
        let parts = [(0, first.clone()), (1, second.clone()), (0, third.clone())];
        let (all, end) = read(&written(&parts, 2)).unwrap();
        prop_assert_eq!(end, ReadEnd::Whole);
        prop_assert_eq!(&all[0], &[first, third].concat());
        prop_assert_eq!(&all[1], &second);
    }

    #[test]
    fn words_of_all_cpus_keep_their_order(
        parts in prop::collection::vec((0..16usize, records()), 0..40),
    ) {
        let pairs = |(cpu, words): &(usize, Vec<u64>)| {
            let cpu = *cpu;
            words.clone().into_iter().map(move |word| (cpu, word))
        };
        let expected: Vec<(usize, u64)> = parts.iter().flat_map(pairs).collect();
        prop_assert_eq!(in_order(&written(&parts, 16)), expected);
    }

    #[test]
    fn a_damaged_byte_is_never_a_wrong_word(
        words in records(),
        at in any::<usize>(),
        bit in 0..8u8,
    ) {
        let mut bytes = written(&[(0, words.clone())], 1);
        let at = at % bytes.len();
        bytes[at] ^= 1u8 << bit;
        if let Ok((all, _)) = read(&bytes) {
            let same = all.len() == 1 && (all[0] == words || all[0].is_empty());
            prop_assert!(same || at < 40, "byte {}", at);
        }
    }
}

#[test]
fn a_file_cut_off_anywhere_gives_its_whole_blocks() {
    let words: Vec<u64> = (0..500_000u64)
        .map(|n| n.wrapping_mul(0x9e37) & 0xffff_ffff)
        .collect();
    let bytes = written(
        &[
            (0, words[..250_000].to_vec()),
            (0, words[250_000..].to_vec()),
        ],
        1,
    );
    let mut seen = std::collections::BTreeSet::new();
    for length in (100..bytes.len() - 1).step_by(bytes.len() / 97) {
        let (all, end) = read(&bytes[..length]).unwrap();
        assert_eq!(end, ReadEnd::CutOff);
        assert_eq!(all[0], words[..all[0].len()]);
        seen.insert(all[0].len());
    }
    assert!(seen.len() > 1, "{seen:?}");
}

#[test]
fn a_file_does_not_depend_on_the_parts_that_its_words_came_in() {
    let mut random = SplitMix64::new(1);
    let words: Vec<u64> = (0..400_000).map(|_| random.below(1 << 32)).collect();
    let cut = |length| -> Vec<(usize, Vec<u64>)> {
        let parts = words.chunks(length).map(|part| (0, part.to_vec()));
        parts.chain([(1, words[..9].to_vec())]).collect()
    };
    let whole = written(&cut(words.len()), 2);
    assert!(whole.len() > 1 << 20, "{} bytes are one block", whole.len());
    for length in [1, 777, 65_536] {
        assert!(written(&cut(length), 2) == whole, "parts of {length}");
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    for bytes in [&b""[..], b"AMPSYS0", b"AMPSYS03....", &[0; 64]] {
        assert!(matches!(read(bytes), Err(FileError::NotOurs)), "{bytes:?}");
    }
    let old = read(b"AMPSYS01....").unwrap_err();
    assert!(old.to_string().contains("of version 1 (AMPSYS01)"), "{old}");
    let mut long = MAGIC.to_vec();
    long.extend(u32::MAX.to_le_bytes());
    assert!(matches!(read(&long), Err(FileError::Header(_))));
}
