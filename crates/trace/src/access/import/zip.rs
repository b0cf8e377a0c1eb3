// SPDX-License-Identifier: MIT OR Apache-2.0
//! The members of a zip archive, read from its start to its end (PKWARE APPNOTE 6.3.10, 4.3.7).
//! Hand-written over the inflater that is here anyway: a crate for archives brings eight others,
//! for encryption and writing.

use crate::access::error::TraceError;
use std::io::{self, BufRead, Read};

/// What a member starts with, and what follows the last one.
pub(super) const MEMBER: [u8; 4] = *b"PK\x03\x04";
const DIRECTORY: [u8; 4] = *b"PK\x01\x02";

/// Flags: encrypted; sizes stand behind the data.
const ENCRYPTED: u16 = 0x1;
const SIZES_BEHIND: u16 = 0x8;
/// Methods of compression.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// The extra field that holds sizes of 64 bits, and what then stands for them.
const ZIP64: u16 = 1;
const IN_ZIP64: u64 = 0xffff_ffff;

/// What stands before a member's data.
struct Header {
    method: u16,
    crc: u32,
    packed_bytes: u64,
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) | u32::from(word(bytes, at + 2)) << 16
}

/// The packed size that the extra fields hold: behind the unpacked one.
fn packed_in_extra(mut extra: &[u8]) -> Option<u64> {
    while extra.len() >= 4 {
        let (kind, bytes) = (word(extra, 0), usize::from(word(extra, 2)));
        let content = extra.get(4..4 + bytes)?;
        if kind == ZIP64 {
            return Some(u64::from_le_bytes(content.get(8..16)?.try_into().ok()?));
        }
        extra = &extra[4 + bytes..];
    }
    None
}

impl Header {
    /// The header of the next member; `None` behind the last one.
    fn read(input: &mut dyn Read) -> Result<Option<Self>, String> {
        let damaged = |error: io::Error| format!("the archive is damaged: {error}");
        let mut signature = [0; 4];
        input.read_exact(&mut signature).map_err(damaged)?;
        match signature {
            MEMBER => {}
            DIRECTORY => return Ok(None),
            _ => return Err("the archive is damaged: neither a member nor its end".into()),
        }
        let mut fixed = [0; 26];
        input.read_exact(&mut fixed).map_err(damaged)?;
        let (flags, method) = (word(&fixed, 2), word(&fixed, 4));
        let mut names = vec![0; usize::from(word(&fixed, 22)) + usize::from(word(&fixed, 24))];
        input.read_exact(&mut names).map_err(damaged)?;
        let extra = &names[usize::from(word(&fixed, 22))..];
        let packed_bytes = match u64::from(long(&fixed, 14)) {
            IN_ZIP64 => packed_in_extra(extra).ok_or("the archive is damaged: no size")?,
            bytes => bytes,
        };
        if flags & (ENCRYPTED | SIZES_BEHIND) != 0 || !matches!(method, STORED | DEFLATED) {
            return Err(format!(
                "a member with flags {flags:#x} and compression {method}; unpack the archive first"
            ));
        }
        Ok(Some(Header {
            method,
            crc: long(&fixed, 10),
            packed_bytes,
        }))
    }
}

/// A member's content; its checksum is looked at when it ends.
struct Member<R> {
    content: R,
    wanted: u32,
    found: crc32fast::Hasher,
    ended: bool,
}

impl<R: Read> Read for Member<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.found.update(&buffer[..count]);
        if count == 0 && !buffer.is_empty() {
            self.ended = true;
            if self.found.clone().finalize() != self.wanted {
                return Err(io::Error::other("a member's checksum is wrong"));
            }
        }
        Ok(count)
    }
}

/// Hands the members to `visit` in their order until it returns false.
///
/// # Errors
/// Those of `visit`; if the archive is damaged or of a kind that is not read: the member's number.
pub(super) fn each_member(
    mut input: impl BufRead,
    visit: &mut dyn FnMut(&mut dyn Read) -> Result<bool, TraceError>,
) -> Result<(), TraceError> {
    for number in 0u64.. {
        let at = |what| TraceError::Syntax {
            place: format!("member {number} of the zip archive"),
            what,
        };
        let Some(header) = Header::read(&mut input).map_err(at)? else {
            break;
        };
        let mut packed = input.by_ref().take(header.packed_bytes);
        let content: Box<dyn Read + '_> = match header.method {
            STORED => Box::new(&mut packed),
            _ => Box::new(flate2::bufread::DeflateDecoder::new(&mut packed)),
        };
        let mut member = Member {
            content,
            wanted: header.crc,
            found: crc32fast::Hasher::new(),
            ended: false,
        };
        let goes_on = visit(&mut member)?;
        if !goes_on || !member.ended {
            break;
        }
        drop(member);
        if packed.limit() > 0 {
            return Err(at(
                "the archive is damaged: data behind a member's end".into()
            ));
        }
    }
    Ok(())
}
