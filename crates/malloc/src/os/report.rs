// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text without allocation: lines on stderr, and the end of the process when memory is corrupt.

use core::fmt::{self, Write};

/// A line of at most 512 bytes; what does not fit is cut.
pub struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Line {
    /// An empty line.
    pub const fn new() -> Self {
        Line {
            bytes: [0; 512],
            len: 0,
        }
    }

    /// The text up to a zero byte at its end.
    pub fn text(&self) -> &str {
        let text = core::str::from_utf8(self.as_bytes()).unwrap_or("");
        text.trim_end_matches('\0')
    }

    /// The text as a C string; an empty one unless it ends in a zero byte.
    pub fn as_c(&self) -> *const core::ffi::c_char {
        core::ffi::CStr::from_bytes_until_nul(self.as_bytes())
            .unwrap_or(c"")
            .as_ptr()
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.len;
        let len = text.len().min(room);
        self.bytes[self.len..self.len + len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

/// Writes all bytes to a file descriptor, keeping errno.
pub fn write_all(fd: i32, mut bytes: &[u8]) -> bool {
    let saved = crate::os::sys::errno();
    let mut succeeded = true;
    while !bytes.is_empty() {
        // Not by `write`, which is a cancellation point.
        // SAFETY: the buffer is valid for its length.
        let written = unsafe { libc::syscall(libc::SYS_write, fd, bytes.as_ptr(), bytes.len()) };
        if written > 0 {
            bytes = &bytes[written as usize..];
        } else if crate::os::sys::errno() != libc::EINTR {
            succeeded = false;
            break;
        }
    }
    crate::os::sys::set_errno(saved);
    succeeded
}

/// Writes one line to stderr.
pub fn warn(text: fmt::Arguments<'_>) {
    let mut line = Line::new();
    let _ = line.write_fmt(format_args!("ample-malloc: {text}\n"));
    write_all(2, line.as_bytes());
}

/// Ends the process because memory is corrupt: going on would make it worse.
#[cold]
pub fn corrupt(text: fmt::Arguments<'_>) -> ! {
    warn(text);
    // SAFETY: abort may be called at any time.
    unsafe { libc::abort() }
}
