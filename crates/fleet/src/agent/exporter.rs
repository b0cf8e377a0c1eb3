// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page for a metrics collector, over HTTP.
//!
//! As little of HTTP as a scrape needs (RFC 9110 and 9112): `GET /metrics`, one request a
//! connection, and nothing of the file system behind it. A fixed number of threads answer, each
//! with one buffer and a deadline, so that neither many clients nor slow ones cost more.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Clients that are answered at once; more wait in the kernel's queue.
const THREADS: usize = 4;
/// A client that has not sent its request, or taken its answer, by then is left.
const DEADLINE: Duration = Duration::from_secs(2);
/// A longer request is refused.
const LONGEST_REQUEST: usize = 4096;
/// Before the next try, where the process has no file left for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// What is served now, shared by the threads that answer.
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

/// The listening end; its threads run until the process ends.
#[derive(Debug)]
pub struct Exporter {
    address: SocketAddr,
}

impl Exporter {
    /// Serves `page` at `address`.
    ///
    /// # Errors
    /// When the address cannot be listened at, or a thread not be started.
    pub fn start(address: SocketAddr, page: &Served) -> Result<Exporter> {
        let listener =
            TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
        let address = listener.local_addr()?;
        let listener = Arc::new(listener);
        for _ in 0..THREADS {
            let (listener, page) = (listener.clone(), page.clone());
            std::thread::Builder::new()
                .name("exporter".into())
                .stack_size(128 << 10)
                .spawn(move || serve(&listener, &page))
                .context("cannot start a thread")?;
        }
        Ok(Exporter { address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn serve(listener: &TcpListener, page: &Served) {
    loop {
        match listener.accept() {
            // A client that breaks off costs nobody else anything.
            Ok((client, _)) => drop(answer(client, page)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Reads one request and writes one answer.
fn answer(mut client: TcpStream, page: &Served) -> std::io::Result<()> {
    let deadline = Instant::now() + DEADLINE;
    let mut request = [0; LONGEST_REQUEST];
    let mut len = 0;
    let (status, body) = loop {
        if let Some(answer) = answer_to(&request[..len], page) {
            break answer;
        }
        if len == request.len() {
            break ("431 Request Header Fields Too Large", "too long\n".into());
        }
        client.set_read_timeout(Some(left(deadline)?))?;
        match client.read(&mut request[len..])? {
            0 => return Ok(()),
            read => len += read,
        }
    };
    let kind = match status {
        "200 OK" => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let whole = [head.as_bytes(), body.as_bytes()].concat();
    let mut rest = &whole[..];
    while !rest.is_empty() {
        client.set_write_timeout(Some(left(deadline)?))?;
        match client.write(rest)? {
            0 => return Ok(()),
            written => rest = &rest[written..],
        }
    }
    Ok(())
}

/// Time until the deadline.
fn left(deadline: Instant) -> std::io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// The answer to a request, its status and its body, once its head is whole.
pub fn answer_to(request: &[u8], page: &Served) -> Option<(&'static str, Arc<str>)> {
    let end = request.windows(4).position(|four| four == b"\r\n\r\n")?;
    let line = request[..end].split(|byte| *byte == b'\r').next()?;
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let path = target.map(|target| target.split(|byte| *byte == b'?').next());
    let known = version.is_some_and(|version| version.starts_with(b"HTTP/1."));
    Some(match (method, path.flatten()) {
        _ if !known || words.next().is_some() => ("400 Bad Request", "not HTTP/1\n".into()),
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", page.get()),
        (Some(b"GET"), _) => ("404 Not Found", "there is /metrics\n".into()),
        _ => ("405 Method Not Allowed", "there is GET\n".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exporter(text: &str) -> Exporter {
        let page = Served::default();
        page.set(text.into());
        Exporter::start("127.0.0.1:0".parse().unwrap(), &page).unwrap()
    }

    fn ask(exporter: &Exporter, request: &[u8]) -> String {
        let mut client = TcpStream::connect(exporter.address()).unwrap();
        client.write_all(request).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn answers_a_scrape_and_nothing_else() {
        let exporter = exporter("ample_up 1\n# EOF\n");
        let page = ask(&exporter, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("openmetrics-text; version=1.0.0"), "{page}");
        assert!(page.ends_with("\r\n\r\nample_up 1\n# EOF\n"), "{page}");
        for (request, status) in [
            (&b"GET /metrics?x=1 HTTP/1.0\r\n\r\n"[..], "200"),
            (b"GET / HTTP/1.1\r\n\r\n", "404"),
            (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", "404"),
            (b"GET /metrics/../x HTTP/1.1\r\n\r\n", "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\0\0\0\0\r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.1 more\r\n\r\n", "400"),
            (b"\r\n\r\n", "400"),
            (&[b'x'; LONGEST_REQUEST], "431"),
        ] {
            let answer = ask(&exporter, request);
            let text = String::from_utf8_lossy(request);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{text}: {answer}"
            );
        }
    }

    #[test]
    fn silent_clients_do_not_keep_others_waiting_for_good() {
        let exporter = exporter("# EOF\n");
        let silent: Vec<TcpStream> = (0..2 * THREADS)
            .map(|_| TcpStream::connect(exporter.address()).unwrap())
            .collect();
        let page = ask(&exporter, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        drop(silent);
    }

    #[test]
    fn a_storm_of_scrapes_is_answered_whole() {
        let body = format!("{}# EOF\n", "ample_x 1\n".repeat(20_000));
        let exporter = exporter(&body);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let page = ask(&exporter, b"GET /metrics HTTP/1.1\r\n\r\n");
                        assert!(page.ends_with(&body));
                    }
                });
            }
        });
    }
}
