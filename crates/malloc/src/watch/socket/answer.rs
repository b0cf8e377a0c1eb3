// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests and their answers.

use crate::os::report::Line;
use crate::os::sys;
use crate::watch::stats::{self, StatsForm};
use core::fmt::Write;

/// Longest request.
const REQUEST_BYTES: usize = 2048;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// The rest has yet to come.
    Partial,
    /// A client without HTTP: it gets the page.
    Plain,
    /// `GET` of a form.
    Http(StatsForm),
    /// Whatever else.
    Unknown,
}

/// What the beginning of a request asks for; an empty one is that of a client that has closed.
fn parse(request: &[u8]) -> Request {
    let Some(rest) = request.strip_prefix(b"GET ") else {
        let whole = request.is_empty() || request.contains(&b'\n');
        return match () {
            () if whole => Request::Plain,
            () if request.len() < REQUEST_BYTES => Request::Partial,
            () => Request::Unknown,
        };
    };
    if !rest.windows(4).any(|end| end == b"\r\n\r\n") {
        return if request.len() < REQUEST_BYTES {
            Request::Partial
        } else {
            Request::Unknown
        };
    }
    match rest.split(|&byte| byte == b' ').next() {
        Some(b"/") => Request::Http(StatsForm::Text),
        Some(b"/metrics") => Request::Http(StatsForm::Metrics),
        Some(b"/json") => Request::Http(StatsForm::Json),
        _ => Request::Unknown,
    }
}

/// Answers a connection whose request has come; true if it is done with.
pub fn answer(fd: i32) -> bool {
    let mut bytes = [0u8; REQUEST_BYTES];
    let Some(len) = receive(fd, &mut bytes, libc::MSG_PEEK) else {
        return sys::errno() != libc::EAGAIN;
    };
    let request = parse(&bytes[..len]);
    if request == Request::Partial {
        return false;
    }
    receive(fd, &mut bytes, 0);
    let mut head = Line::new();
    let (result, form) = match request {
        Request::Http(form) => ("200 OK", Some(form)),
        Request::Plain => ("", Some(StatsForm::Text)),
        _ => ("404 Not Found", None),
    };
    if !result.is_empty() {
        let kind = match form {
            Some(StatsForm::Metrics) => OPEN_METRICS,
            Some(StatsForm::Json) => "application/json",
            _ => "text/plain; charset=utf-8",
        };
        let _ = write!(
            head,
            "HTTP/1.0 {result}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n"
        );
    }
    if send(fd, head.as_bytes()) {
        match form {
            Some(form) => stats::write_by(fd, send, form),
            None => {
                send(
                    fd,
                    b"/ is a page of text, /metrics OpenMetrics, /json one object\n",
                );
            }
        }
    }
    true
}

/// What has come, without waiting; its length, or `None` with errno.
fn receive(fd: i32, bytes: &mut [u8], flags: i32) -> Option<usize> {
    let flags = flags | libc::MSG_DONTWAIT;
    let (to, len) = (bytes.as_mut_ptr(), bytes.len());
    // SAFETY: a buffer of the given length.
    let received = unsafe { libc::syscall(libc::SYS_recvfrom, fd, to, len, flags, 0, 0) };
    usize::try_from(received).ok()
}

/// Sends without waiting: what is more than the kernel takes (some 200 KiB) is cut. False if the
/// other side is gone. Keeps errno.
fn send(fd: i32, bytes: &[u8]) -> bool {
    let saved = sys::errno();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: a buffer of the given length.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd,
            bytes.as_ptr(),
            bytes.len(),
            flags,
            0,
            0,
        )
    };
    sys::set_errno(saved);
    usize::try_from(sent) == Ok(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_and_waited_for() {
        let long = [b'x'; REQUEST_BYTES];
        let mut endless = long;
        endless[..4].copy_from_slice(b"GET ");
        let cases: [(&[u8], Request); 10] = [
            (b"", Request::Plain),
            (b"\n", Request::Plain),
            (b"show", Request::Partial),
            (&long, Request::Unknown),
            (&endless, Request::Unknown),
            (b"GET /metrics HTTP/1.1\r\nHost: x\r\n", Request::Partial),
            (
                b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
                Request::Http(StatsForm::Metrics),
            ),
            (b"GET / HTTP/1.0\r\n\r\n", Request::Http(StatsForm::Text)),
            (
                b"GET /json HTTP/1.0\r\n\r\n",
                Request::Http(StatsForm::Json),
            ),
            (b"GET /../etc HTTP/1.0\r\n\r\n", Request::Unknown),
        ];
        for (request, expected) in cases {
            assert_eq!(parse(request), expected, "{request:?}");
        }
    }
}
