// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page for a metrics collector, over HTTP.
//!
//! One thread answers all clients. So many are open at once, each with one buffer and a deadline,
//! so that neither many clients nor slow ones cost more; where no place is free for one that waits,
//! the oldest that has not sent its request gives way.

use super::http::{Served, answer_to, too_long};
use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Clients that are open at once; more wait in the kernel's queue.
const MOST_OPEN: usize = 32;
/// A client that has not sent its request, or taken its answer, by then is left.
const DEADLINE: Duration = Duration::from_secs(2);
/// So long nobody gives way: a request may take its time on the network.
const GRACE: Duration = Duration::from_millis(200);
/// A longer request is refused.
const LONGEST_REQUEST: usize = 4096;
/// What comes after a request is read and dropped up to so many bytes: to close before would take
/// the answer from a client that still sends.
const MOST_DROPPED: usize = 256 << 10;
/// Before the next try, where the process has no file left for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// The listening end; its thread runs until the process ends.
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
        Exporter::with_deadline(address, page, DEADLINE)
    }

    fn with_deadline(address: SocketAddr, page: &Served, deadline: Duration) -> Result<Exporter> {
        let listener =
            TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let page = page.clone();
        std::thread::Builder::new()
            .name("exporter".into())
            .stack_size(128 << 10)
            .spawn(move || serve(&listener, &page, deadline))
            .context("cannot start a thread")?;
        Ok(Exporter { address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn serve(listener: &TcpListener, page: &Served, deadline: Duration) {
    let mut open: Vec<Client> = Vec::with_capacity(MOST_OPEN);
    loop {
        // A client that breaks off costs nobody else anything.
        let now = Instant::now();
        open.retain_mut(|client| client.ready.is_empty() || client.go_on(page).unwrap_or(false));
        open.retain(|client| now < client.since + deadline);
        let place = match open.len() < MOST_OPEN {
            true => Some(now),
            false => yielding(&open).map(|at| open[at].since + GRACE),
        };
        let listening = place.is_some_and(|when| when <= now);
        let ends = open.iter().map(|client| client.since + deadline);
        let next = ends.chain(place.filter(|when| *when > now)).min();
        if !wait(listener, listening, &mut open, next) {
            continue;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                if open.len() == MOST_OPEN
                    && let Some(at) = yielding(&open)
                {
                    open.swap_remove(at);
                }
                open.extend(Client::new(stream));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Who gives way first: the oldest of those that do not wait for the rest of their answer, else the
/// oldest.
fn yielding(open: &[Client]) -> Option<usize> {
    let age = |at: &usize| {
        (
            matches!(open[*at].stage, Stage::Answering(..)),
            open[*at].since,
        )
    };
    (0..open.len()).min_by_key(age)
}

/// Waits until a client can go on, one can be accepted (if `listening`), or `until`; whether one
/// can be accepted.
fn wait(
    listener: &TcpListener,
    listening: bool,
    open: &mut [Client],
    until: Option<Instant>,
) -> bool {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // A millisecond more: an early end would look again at once.
    let left = left.map(|left| left + Duration::from_millis(1));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    let mut all: Vec<PollFd<'_>> = (open.iter())
        .map(|client| PollFd::new(&client.stream, client.stage.waits_for()))
        .collect();
    if listening {
        all.push(PollFd::new(listener, PollFlags::IN));
    }
    // An interrupted call says nothing of anybody.
    let polled = poll(&mut all, left.as_ref()).is_ok();
    let ready: Vec<PollFlags> = (all.iter())
        .map(|one| {
            if polled {
                one.revents()
            } else {
                PollFlags::empty()
            }
        })
        .collect();
    for (client, ready) in open.iter_mut().zip(&ready) {
        client.ready = *ready;
    }
    listening && ready.last().is_some_and(|ready| !ready.is_empty())
}

/// How far an exchange is.
enum Stage {
    /// What has come of the request.
    Asking(Vec<u8>),
    /// The answer, and how much of it is sent.
    Answering(Vec<u8>, usize),
    /// All is sent: how much has come since.
    Leaving(usize),
}

impl Stage {
    fn waits_for(&self) -> PollFlags {
        match self {
            Stage::Asking(_) | Stage::Leaving(_) => PollFlags::IN,
            Stage::Answering(..) => PollFlags::OUT,
        }
    }
}

/// A connection with one request.
struct Client {
    stream: TcpStream,
    since: Instant,
    /// What it was found ready for.
    ready: PollFlags,
    stage: Stage,
}

impl Client {
    fn new(stream: TcpStream) -> std::io::Result<Client> {
        stream.set_nonblocking(true)?;
        Ok(Client {
            stream,
            since: Instant::now(),
            // The request is there already, as a rule.
            ready: PollFlags::IN,
            stage: Stage::Asking(Vec::new()),
        })
    }

    /// Goes on until it would have to wait; whether there is more to come.
    fn go_on(&mut self, page: &Served) -> std::io::Result<bool> {
        loop {
            match self.step(page) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn step(&mut self, page: &Served) -> std::io::Result<bool> {
        let mut part = [0; LONGEST_REQUEST];
        match &mut self.stage {
            Stage::Asking(request) => {
                let read = self.stream.read(&mut part[request.len()..])?;
                request.extend_from_slice(&part[request.len()..][..read]);
                let full = request.len() == LONGEST_REQUEST;
                let answer = answer_to(request, page).or_else(|| full.then(too_long));
                if let Some((head, body)) = answer {
                    let whole = [head.as_bytes(), body.as_bytes()].concat();
                    self.stage = Stage::Answering(whole, 0);
                }
                Ok(read > 0)
            }
            Stage::Answering(whole, sent) => {
                *sent += self.stream.write(&whole[*sent..])?;
                if *sent == whole.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.stage = Stage::Leaving(0);
                }
                Ok(true)
            }
            Stage::Leaving(dropped) => {
                let read = self.stream.read(&mut part)?;
                *dropped += read;
                Ok(read > 0 && *dropped <= MOST_DROPPED)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &[u8] = b"GET /metrics HTTP/1.1\r\n\r\n";

    fn exporter(text: &str, deadline: Duration) -> Exporter {
        let page = Served::default();
        page.set(text.into());
        Exporter::with_deadline("127.0.0.1:0".parse().unwrap(), &page, deadline).unwrap()
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
        let exporter = exporter("ample_up 1\n# EOF\n", DEADLINE);
        let page = ask(&exporter, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("openmetrics-text; version=1.0.0"), "{page}");
        assert!(page.ends_with("\r\n\r\nample_up 1\n# EOF\n"), "{page}");
        for (request, status) in [
            (&b"GET /metrics?x=1 HTTP/1.0\r\n\r\n"[..], "200"),
            (b"GET http://127.0.0.1:9157/metrics HTTP/1.1\r\n\r\n", "200"),
            (b"GET HTTP://here/metrics?x=/ HTTP/1.1\r\n\r\n", "200"),
            (b"GET http://here HTTP/1.1\r\n\r\n", "404"),
            (b"GET http:///metrics/x HTTP/1.1\r\n\r\n", "404"),
            (b"GET / HTTP/1.1\r\n\r\n", "404"),
            (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", "404"),
            (b"GET /metrics/../x HTTP/1.1\r\n\r\n", "404"),
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
    fn head_is_get_without_its_body_and_other_methods_are_told_both() {
        let exporter = exporter("ample_up 1\n# EOF\n", DEADLINE);
        let page = ask(&exporter, PAGE);
        let (head, _) = page.split_once("ample_up").unwrap();
        assert_eq!(ask(&exporter, b"HEAD /metrics HTTP/1.1\r\n\r\n"), head);
        let none = ask(&exporter, b"HEAD / HTTP/1.1\r\n\r\n");
        assert!(
            none.starts_with("HTTP/1.1 404 ") && none.ends_with("\r\n\r\n"),
            "{none}"
        );
        let post = ask(&exporter, b"POST /metrics HTTP/1.1\r\n\r\n");
        assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
        assert!(post.contains("\r\nAllow: GET, HEAD\r\n"), "{post}");
    }

    /// A close before all is read resets the connection, and the client may lose the answer.
    #[test]
    fn whoever_sends_more_gets_its_answer_and_no_reset() {
        let exporter = exporter("# EOF\n", DEADLINE);
        let more = vec![b'x'; 100_000];
        for (request, status) in [
            (
                &b"POST /metrics HTTP/1.1\r\nContent-Length: 100000\r\n\r\n"[..],
                "405",
            ),
            (b"GET /metrics HTTP/1.1\r\nCookie: ", "431"),
            (PAGE, "200"),
        ] {
            let answer = ask(&exporter, &[request, &more].concat());
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
        }
    }

    #[test]
    fn silent_clients_give_way_to_a_scrape() {
        // Nobody is left for the time that passes.
        let exporter = exporter("# EOF\n", Duration::from_secs(3600));
        let mut silent: Vec<TcpStream> = (0..3 * MOST_OPEN)
            .map(|_| TcpStream::connect(exporter.address()).unwrap())
            .collect();
        let page = ask(&exporter, PAGE);
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        let still_open = |client: &mut TcpStream| {
            client.set_nonblocking(true).unwrap();
            let read = client.read(&mut [0]);
            read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        let open: Vec<bool> = silent.iter_mut().map(still_open).collect();
        let (oldest, newest) = open.split_at(open.len() - (MOST_OPEN - 1));
        assert!(
            !oldest.contains(&true),
            "no more are open than have a place"
        );
        assert!(!newest.contains(&false), "no fewer either");
    }

    #[test]
    fn a_client_that_does_not_ask_in_time_is_left() {
        let exporter = exporter("# EOF\n", Duration::ZERO);
        assert_eq!(ask(&exporter, b""), "");
    }

    #[test]
    fn a_storm_of_scrapes_is_answered_whole() {
        let body = format!("{}# EOF\n", "ample_x 1\n".repeat(20_000));
        let exporter = exporter(&body, DEADLINE);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let page = ask(&exporter, PAGE);
                        assert!(page.ends_with(&body));
                    }
                });
            }
        });
    }
}
