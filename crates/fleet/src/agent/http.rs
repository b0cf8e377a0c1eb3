// SPDX-License-Identifier: MIT OR Apache-2.0
//! As much of HTTP as a scrape needs (RFC 9110 and 9112): `GET` and `HEAD` of `/metrics`, one
//! request a connection, and nothing of the file system behind it.

use std::sync::{Arc, Mutex, PoisonError};

/// What is served now, shared by whoever sets it and the thread that answers.
#[derive(Clone, Debug, Default)]
pub struct Served(Arc<Mutex<Arc<str>>>);

impl Served {
    /// Serves this text from now on.
    pub fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn get(&self) -> Arc<str> {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone()
    }
}

/// The answer to a request once its head is whole: a head, and the body after it. `HEAD` is told
/// of the same body and gets none.
pub fn answer_to(request: &[u8], page: &Served) -> Option<(String, Arc<str>)> {
    let end = request.windows(4).position(|four| four == b"\r\n\r\n")?;
    let line = request[..end].split(|byte| *byte == b'\r').next()?;
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let known = version.is_some_and(|version| version.starts_with(b"HTTP/1."));
    let (status, body): (_, Arc<str>) = match (method, target.map(path)) {
        _ if !known || words.next().is_some() => ("400 Bad Request", "not HTTP/1\n".into()),
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => ("200 OK", page.get()),
        (Some(b"GET" | b"HEAD"), _) => ("404 Not Found", "there is /metrics\n".into()),
        _ => ("405 Method Not Allowed", "there is GET\n".into()),
    };
    let head = head(status, &body);
    Some(match method {
        Some(b"HEAD") => (head, "".into()),
        _ => (head, body),
    })
}

/// The answer to a request whose head does not end.
pub(super) fn too_long() -> (String, Arc<str>) {
    let body = "too long\n";
    (
        head("431 Request Header Fields Too Large", body),
        body.into(),
    )
}

/// The path of a target, without a query. Proxies may name the host before it (RFC 9112, 3.2.2).
fn path(target: &[u8]) -> &[u8] {
    const SCHEME: &[u8] = b"http://";
    let end = target.iter().position(|byte| *byte == b'?');
    let own = &target[..end.unwrap_or(target.len())];
    let absolute = (own.get(..SCHEME.len())).is_some_and(|own| own.eq_ignore_ascii_case(SCHEME));
    if !absolute {
        return own;
    }
    let rest = &own[SCHEME.len()..];
    let slash = rest.iter().position(|byte| *byte == b'/');
    slash.map_or(b"/", |slash| &rest[slash..])
}

fn head(status: &str, body: &str) -> String {
    let kind = match status {
        "200 OK" => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let allow = match status.starts_with("405") {
        true => "Allow: GET, HEAD\r\n",
        false => "",
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}\
         Connection: close\r\n\r\n",
        body.len()
    )
}
