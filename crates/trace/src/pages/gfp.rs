// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocation flags as the trace events print them (`include/trace/events/mmflags.h`, 6.12).

/// A set of allocation flags. The bits are the model's own: the kernel's move between versions,
/// which is why only names are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gfp(pub u32);

/// Declares the single flags and the table of their names.
macro_rules! flags {
    ($($const:ident = $bit:literal, $name:literal;)+) => {
        impl Gfp {
            $(#[doc = concat!("`", $name, "`.")] pub const $const: Gfp = Gfp(1 << $bit);)+
        }

        fn single(name: &[u8]) -> Option<Gfp> {
            const NAMES: &[(&[u8], Gfp)] = &[$(($name.as_bytes(), Gfp::$const)),+];
            NAMES.iter().find(|row| row.0 == name).map(|row| row.1)
        }
    };
}

flags! {
    DMA = 0, "__GFP_DMA";
    HIGHMEM = 1, "__GFP_HIGHMEM";
    DMA32 = 2, "__GFP_DMA32";
    MOVABLE = 3, "__GFP_MOVABLE";
    RECLAIMABLE = 4, "__GFP_RECLAIMABLE";
    HIGH = 5, "__GFP_HIGH";
    IO = 6, "__GFP_IO";
    FS = 7, "__GFP_FS";
    ZERO = 8, "__GFP_ZERO";
    DIRECT_RECLAIM = 9, "__GFP_DIRECT_RECLAIM";
    KSWAPD_RECLAIM = 10, "__GFP_KSWAPD_RECLAIM";
    WRITE = 11, "__GFP_WRITE";
    NOWARN = 12, "__GFP_NOWARN";
    RETRY_MAYFAIL = 13, "__GFP_RETRY_MAYFAIL";
    NOFAIL = 14, "__GFP_NOFAIL";
    NORETRY = 15, "__GFP_NORETRY";
    MEMALLOC = 16, "__GFP_MEMALLOC";
    COMP = 17, "__GFP_COMP";
    NOMEMALLOC = 18, "__GFP_NOMEMALLOC";
    HARDWALL = 19, "__GFP_HARDWALL";
    THISNODE = 20, "__GFP_THISNODE";
    ACCOUNT = 21, "__GFP_ACCOUNT";
}

impl Gfp {
    /// A name or number that is not known here: a newer kernel, or a damaged line.
    pub const UNKNOWN: Gfp = Gfp(1 << 31);
    /// No flag at all.
    pub const NONE: Gfp = Gfp(0);

    const RECLAIM: Gfp = Gfp::DIRECT_RECLAIM.and(Gfp::KSWAPD_RECLAIM);
    const NOIO: Gfp = Gfp::RECLAIM;
    const NOFS: Gfp = Gfp::NOIO.and(Gfp::IO);
    const KERNEL: Gfp = Gfp::NOFS.and(Gfp::FS);
    const USER: Gfp = Gfp::KERNEL.and(Gfp::HARDWALL);
    const HIGHUSER: Gfp = Gfp::USER.and(Gfp::HIGHMEM);
    const HIGHUSER_MOVABLE: Gfp = Gfp::HIGHUSER.and(Gfp::MOVABLE);
    const ATOMIC: Gfp = Gfp::HIGH.and(Gfp::KSWAPD_RECLAIM);
    /// `GFP_TRANSHUGE` less its reclaim bits.
    const TRANSHUGE_LIGHT: Gfp = Gfp((Gfp::HIGHUSER_MOVABLE.0 & !Gfp::RECLAIM.0)
        | Gfp::COMP.0
        | Gfp::NOMEMALLOC.0
        | Gfp::NOWARN.0);

    /// Both sets.
    pub const fn and(self, other: Gfp) -> Gfp {
        Gfp(self.0 | other.0)
    }

    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn has(self, other: Gfp) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the allocation may sleep and reclaim.
    #[inline]
    pub const fn may_reclaim(self) -> bool {
        self.has(Gfp::DIRECT_RECLAIM)
    }

    /// Reads flags joined by `|`. Names that are not known set [`Gfp::UNKNOWN`].
    pub fn parse(text: &[u8]) -> Gfp {
        let none: [&[u8]; 4] = [b"none", b"(none)", b"0", b"0x0"];
        if none.contains(&text) {
            return Gfp::NONE;
        }
        text.split(|&byte| byte == b'|')
            .fold(Gfp::NONE, |set, name| set.and(named(name)))
    }
}

fn named(name: &[u8]) -> Gfp {
    match name {
        b"GFP_KERNEL" => Gfp::KERNEL,
        b"GFP_KERNEL_ACCOUNT" => Gfp::KERNEL.and(Gfp::ACCOUNT),
        b"GFP_HIGHUSER_MOVABLE" => Gfp::HIGHUSER_MOVABLE,
        b"GFP_HIGHUSER" => Gfp::HIGHUSER,
        b"GFP_USER" => Gfp::USER,
        b"GFP_NOFS" => Gfp::NOFS,
        b"GFP_NOIO" => Gfp::NOIO,
        b"GFP_ATOMIC" => Gfp::ATOMIC,
        b"GFP_NOWAIT" => Gfp::KSWAPD_RECLAIM,
        b"GFP_TRANSHUGE" => Gfp::TRANSHUGE_LIGHT.and(Gfp::DIRECT_RECLAIM),
        b"GFP_TRANSHUGE_LIGHT" => Gfp::TRANSHUGE_LIGHT,
        b"GFP_DMA" => Gfp::DMA,
        b"GFP_DMA32" => Gfp::DMA32,
        b"__GFP_RECLAIM" => Gfp::RECLAIM,
        // Gone since 6.3, when it became a part of __GFP_HIGH.
        b"__GFP_ATOMIC" => Gfp::HIGH,
        name => single(name).unwrap_or(Gfp::UNKNOWN),
    }
}

/// Remembers the last few flag texts: a trace repeats the same dozen.
#[derive(Clone, Debug)]
pub struct GfpCache {
    rows: Vec<(Vec<u8>, Gfp)>,
}

const CACHE_ROWS: usize = 32;

impl GfpCache {
    /// An empty cache.
    pub fn new() -> GfpCache {
        GfpCache {
            rows: vec![(Vec::new(), Gfp::UNKNOWN); CACHE_ROWS],
        }
    }

    /// As [`Gfp::parse`].
    #[inline]
    pub fn parse(&mut self, text: &[u8]) -> Gfp {
        // Length and a few bytes tell the usual texts apart; the comparison decides.
        let byte = |index: usize| text.get(index).copied().unwrap_or(0) as usize;
        let half = byte(text.len() / 2) * 7 + byte(text.len().wrapping_sub(1));
        let row = &mut self.rows[(text.len() * 5 + half) % CACHE_ROWS];
        if row.0 != text {
            row.1 = Gfp::parse(text);
            row.0.clear();
            row.0.extend_from_slice(text);
        }
        row.1
    }
}

impl Default for GfpCache {
    fn default() -> GfpCache {
        GfpCache::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composite_names_are_the_sums_of_their_flags() {
        let spelled = b"__GFP_DIRECT_RECLAIM|__GFP_KSWAPD_RECLAIM|__GFP_IO|__GFP_FS";
        assert_eq!(Gfp::parse(b"GFP_KERNEL"), Gfp::parse(spelled));
        let movable = Gfp::parse(b"GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO");
        assert!(movable.has(Gfp::MOVABLE.and(Gfp::COMP).and(Gfp::ZERO)));
        assert!(movable.may_reclaim());
        assert!(!Gfp::parse(b"GFP_TRANSHUGE_LIGHT").may_reclaim());
    }

    #[test]
    fn unknown_names_are_marked_and_none_is_empty() {
        assert!(Gfp::parse(b"GFP_KERNEL|0x8000000").has(Gfp::UNKNOWN));
        assert_eq!(Gfp::parse(b"none"), Gfp::NONE);
        assert_eq!(Gfp::parse(b"(none)"), Gfp::NONE);
    }

    #[test]
    fn the_cache_answers_like_the_parser() {
        let texts: [&[u8]; 5] = [b"", b"GFP_KERNEL", b"GFP_ATOMIC", b"none", b"GFP_KERNEX"];
        let mut cache = GfpCache::new();
        for text in texts.iter().chain(&texts) {
            assert_eq!(cache.parse(text), Gfp::parse(text));
        }
    }
}
