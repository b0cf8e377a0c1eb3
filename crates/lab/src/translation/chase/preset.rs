// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which preset describes a processor, by vendor, family and model.

use ample_host::Processor;

/// The preset of a processor and how far it fits; None if no preset does. Model numbers: Intel's
/// and AMD's lists of CPUID signatures.
pub fn preset_of(processor: &Processor) -> (Option<String>, String) {
    let found = match (processor.vendor.as_str(), processor.family, processor.model) {
        ("GenuineIntel", 6, 143) => Some(("sapphire-rapids", "the processor it was made for")),
        ("GenuineIntel", 6, 207) => Some((
            "sapphire-rapids",
            "Emerald Rapids: the same translation hardware, another last level",
        )),
        ("GenuineIntel", 6, 85) => Some(("skylake", "Skylake server or its direct successors")),
        ("GenuineIntel", 6, 42 | 45) => Some(("directseg-sandybridge", "Sandy Bridge")),
        ("AuthenticAMD", 25, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => {
            Some(("zen4", "the processor it was made for"))
        }
        _ => None,
    };
    match found {
        Some((name, note)) => (Some(name.to_owned()), note.to_owned()),
        None => (
            None,
            format!(
                "no preset describes {} family {} model {}: measured only; set machine in the \
                 experiment's file to compare with one all the same",
                processor.vendor, processor.family, processor.model
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_processors_have_presets_and_others_say_so() {
        let of = |vendor: &str, family, model| {
            preset_of(&Processor {
                vendor: vendor.into(),
                family,
                model,
                ..Processor::default()
            })
        };
        assert_eq!(
            of("GenuineIntel", 6, 207).0.as_deref(),
            Some("sapphire-rapids")
        );
        assert_eq!(of("AuthenticAMD", 25, 0x11).0.as_deref(), Some("zen4"));
        let (none, note) = of("AuthenticAMD", 25, 1);
        assert!(
            none.is_none() && note.contains("family 25 model 1"),
            "{note}"
        );
    }
}
