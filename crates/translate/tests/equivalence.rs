// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever happens to an address space, in whatever order, every scheme translates to what the
//! page table says, natively and on a virtual machine. These cases shrink when they fail; `orders`
//! runs far more of them.

mod common;

use ample_translate::PageSize::{G1, K4, M2};
use ample_translate::{MmuConfig, schemes};
use common::{Event, HostKind, live, machine, small};
use proptest::prelude::*;

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (any::<u8>(), any::<bool>()).prop_map(|(b, large)| Event::Map(b, large)),
        1 => any::<u16>().prop_map(Event::Unmap),
        1 => (any::<u16>(), any::<bool>()).prop_map(|(p, w)| Event::Protect(p, w)),
        2 => any::<u8>().prop_map(Event::Perforate),
        4 => (any::<u16>(), any::<bool>()).prop_map(|(p, m)| Event::Punch(p, m)),
        2 => any::<u16>().prop_map(Event::Patch),
        1 => any::<u8>().prop_map(Event::Close),
        1 => any::<u8>().prop_map(Event::Split),
        1 => any::<u8>().prop_map(Event::Promote),
        1 => any::<u16>().prop_map(Event::Cow),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(b, n)| Event::Segment(b, n)),
        1 => any::<u8>().prop_map(Event::Shrink),
        1 => any::<u8>().prop_map(Event::Switch),
        1 => any::<bool>().prop_map(Event::Flush),
        1 => (any::<u16>(), any::<bool>()).prop_map(|(p, punch)| Event::Host(p, punch)),
        8 => proptest::collection::vec((any::<u16>(), 0u8..3), 1..40).prop_map(Event::Access),
    ]
}

fn run(
    name: &str,
    config: &MmuConfig,
    host: Option<HostKind>,
    events: &[Event],
) -> Result<(), TestCaseError> {
    live(name, &mut machine(name, config, host), events).map_err(TestCaseError::fail)
}

/// A preset with small arrays, of which those of the second level hold large pages in pieces, and
/// with 2 MB pieces of 1 GB pages in the first.
fn in_pieces(name: &str) -> MmuConfig {
    let mut config = small(name);
    for array in &mut config.l1d {
        array.sizes.retain(|size| *size != G1);
    }
    config.l1d.retain(|array| !array.sizes.is_empty());
    let large = config
        .l1d
        .iter_mut()
        .find(|array| array.sizes.contains(&M2));
    large.unwrap().pieces.insert(G1, M2);
    config.l2.truncate(1);
    config.l2[0].sizes = vec![K4];
    config.l2[0].pieces = [(M2, K4), (G1, K4)].into();
    config
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_scheme_equals_the_page_table(events in proptest::collection::vec(event(), 1..120)) {
        for entry in schemes::REGISTRY {
            run(entry.name, &small("skylake"), None, &events)?;
            run(entry.name, &small("zen4"), None, &events)?;
        }
    }

    #[test]
    fn nested_translation_equals_both_tables(events in proptest::collection::vec(event(), 1..80)) {
        for entry in schemes::REGISTRY {
            run(entry.name, &small("skylake"), Some(HostKind::Plain), &events)?;
        }
        for entry in schemes::REGISTRY.iter().filter(|e| e.name.starts_with("perforated")) {
            run(entry.name, &small("skylake"), Some(HostKind::Mixed), &events)?;
        }
        run("segment", &small("skylake"), Some(HostKind::Segment), &events)?;
    }

    #[test]
    fn pieces_equal_the_page_table(events in proptest::collection::vec(event(), 1..80)) {
        for entry in schemes::REGISTRY {
            run(entry.name, &in_pieces("skylake"), None, &events)?;
        }
        for host in [HostKind::Plain, HostKind::Mixed] {
            run("perforated", &in_pieces("zen4"), Some(host), &events)?;
        }
        run("paging", &in_pieces("zen4"), Some(HostKind::Plain), &events)?;
    }

    #[test]
    fn without_pcid_a_switch_flushes(events in proptest::collection::vec(event(), 1..60)) {
        let config = MmuConfig { pcid: false, ..small("skylake") };
        run("perforated", &config, None, &events)?;
    }
}
