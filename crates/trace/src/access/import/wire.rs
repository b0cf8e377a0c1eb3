// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protocol Buffers' wire format, as much as two kinds of messages take: numbers of up to 64 bits,
//! and lengths that are skipped. Hand-written: a generator of code would be the largest dependency
//! of this crate, for some thirty lines.

use std::io::{self, Read};

/// Bytes of the longest message that is read.
pub(super) const MESSAGE_BYTES: u64 = 1 << 20;

/// A number in base 128, least significant group first; `None` at the end of the stream.
///
/// # Errors
/// If the stream fails, or ends inside the number.
pub(super) fn stream_varint(input: &mut dyn Read) -> io::Result<Option<u64>> {
    let mut value = 0u64;
    for place in 0..10 {
        let mut byte = [0];
        if input.read(&mut byte)? == 0 {
            return match place {
                0 => Ok(None),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        value |= u64::from(byte[0] & 0x7f) << (7 * place);
        if byte[0] & 0x80 == 0 {
            return Ok(Some(value));
        }
    }
    Err(io::Error::other("a number of more than ten bytes"))
}

/// A field's number and content: `None` for what is no number.
pub(super) type Field = (u64, Option<u64>);

/// The fields of a message, in their order.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    fn varint(&mut self) -> Option<u64> {
        stream_varint(&mut self.0).ok().flatten()
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    /// The next field; `Some(None)` where the message is damaged.
    pub(super) fn next(&mut self) -> Option<Option<Field>> {
        if self.0.is_empty() {
            return None;
        }
        Some(self.field())
    }

    fn field(&mut self) -> Option<Field> {
        let key = self.varint()?;
        let content = match key & 7 {
            0 => Some(self.varint()?),
            1 => {
                self.skip(8)?;
                None
            }
            2 => {
                let bytes = self.varint()?;
                self.skip(bytes)?;
                None
            }
            5 => {
                self.skip(4)?;
                None
            }
            _ => return None,
        };
        Some((key >> 3, content))
    }
}
