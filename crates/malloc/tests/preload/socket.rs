// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics on a Unix socket.

use super::{library, program};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A program of `tests/programs/socket.c` that is ready; it ends when it is dropped.
struct Service(Child);

impl Service {
    fn start(mode: &str, socket: &str, options: &str) -> Service {
        let mut child = Command::new(program("socket.c"))
            .arg(mode)
            .env("LD_PRELOAD", library())
            .env("AMPLE_MALLOC", format!("socket={socket},{options}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "{mode} {options}: {child:?}");
        Service(child)
    }

    /// Ends the input; what was written to stderr.
    fn end(mut self) -> String {
        drop(self.0.stdin.take());
        let mut text = String::new();
        let mut err = self.0.stderr.take().expect("it is piped");
        err.read_to_string(&mut text).expect("text");
        assert!(self.0.wait().expect("it ends").success(), "{text}");
        text
    }
}

fn path(name: &str) -> PathBuf {
    let file = format!("{name}.{}.socket", std::process::id());
    // Names of sockets are short.
    std::env::temp_dir().join(file)
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("somebody listens");
    let limit = Some(Duration::from_secs(20));
    stream.set_read_timeout(limit).expect("a time limit");
    stream
}

fn ask(path: &Path, request: &str) -> String {
    let mut stream = connect(path);
    let _ = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn metrics(path: &Path) -> String {
    let answer = ask(path, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\nample_malloc_backed_bytes ") && answer.ends_with("# EOF\n"));
    answer
}

#[test]
fn an_idle_program_answers_in_every_form() {
    for options in ["", "rseq=0", "background=1", "numa=2", "check=1"] {
        let name = path("forms");
        let service = Service::start("", name.to_str().expect("plain"), options);
        let mode = std::fs::metadata(&name).expect("a name").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        metrics(&name);
        let page = ask(&name, "GET / HTTP/1.0\r\n\r\n");
        assert!(page.contains("\r\n\r\nample-malloc: bytes\n") && page.contains("Size classes"));
        let json = ask(&name, "GET /json HTTP/1.0\r\n\r\n");
        assert!(json.ends_with("}\n"), "{json}");
        assert!(ask(&name, "GET /x HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404 "));
        // Without HTTP: a line, and nothing at all.
        assert!(ask(&name, "\n").starts_with("ample-malloc: bytes\n"));
        let mut silent = connect(&name);
        silent.shutdown(std::net::Shutdown::Write).expect("half");
        let mut page = String::new();
        silent.read_to_string(&mut page).expect("a page");
        assert!(page.starts_with("ample-malloc: bytes\n"));
        // A request in two parts.
        let mut slow = connect(&name);
        slow.write_all(b"GET /metrics HT").expect("a part");
        std::thread::sleep(Duration::from_millis(50));
        slow.write_all(b"TP/1.1\r\n\r\n").expect("the rest");
        page.clear();
        slow.read_to_string(&mut page).expect("an answer");
        assert!(page.ends_with("# EOF\n"));
        assert_eq!(service.end(), "");
        assert!(!name.exists(), "the name stays behind");
    }
}

/// Clients that send nothing, too much or go away, in numbers; the program forks and allocates
/// meanwhile.
#[test]
fn a_storm_of_requests_is_survived() {
    for (mode, options) in [
        ("busy", ""),
        ("", ""),
        ("busy", "background=1"),
        ("busy", "rseq=0"),
    ] {
        let name = path("storm");
        let service = Service::start(mode, name.to_str().expect("plain"), options);
        let storm = || {
            let mut silent = Vec::new();
            for round in 0..200 {
                match round % 5 {
                    0 => silent.push(connect(&name)),
                    1 => drop(connect(&name).write_all(b"GET /json HTTP/1.0\r\n\r\n")),
                    2 => drop(connect(&name).write_all(&[b'x'; 100_000])),
                    // Enough silent clients may displace this one.
                    _ => {
                        let mut stream = connect(&name);
                        let _ = stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n");
                        let _ = stream.read_to_string(&mut String::new());
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            (0..3).for_each(|_| {
                scope.spawn(storm);
            });
        });
        metrics(&name);
        assert_eq!(service.end(), "", "{mode} {options}");
    }
}

#[test]
fn names_are_taken_over_from_the_dead_and_left_to_the_living() {
    let name = path("taken");
    let shown = name.to_str().expect("plain");
    // What a killed process leaves behind.
    drop(UnixListener::bind(&name).expect("a socket"));
    assert!(
        std::fs::metadata(&name)
            .expect("a name")
            .file_type()
            .is_socket()
    );
    let first = Service::start("", shown, "");
    metrics(&name);
    let second = Service::start("", shown, "");
    assert_eq!(second.end(), "");
    metrics(&name);
    assert_eq!(first.end(), "");
    // The same process, twice.
    let again = Service::start("exec", shown, "");
    metrics(&name);
    assert_eq!(again.end(), "");
    for other in ["file", "datagram", "folder"] {
        match other {
            "file" => std::fs::write(&name, "kept").expect("a file"),
            "folder" => std::fs::create_dir(&name).expect("a folder"),
            _ => drop(UnixDatagram::bind(&name).expect("a socket")),
        }
        let complaint = Service::start("", shown, "").end();
        if other == "datagram" {
            // Its process is gone, so it is in nobody's way.
            assert_eq!(complaint, "");
            continue;
        }
        assert!(
            complaint.contains(shown) && complaint.lines().count() == 1,
            "{complaint}"
        );
        if other == "file" {
            assert_eq!(std::fs::read_to_string(&name).expect("it is there"), "kept");
            std::fs::remove_file(&name).expect("a file");
        }
    }
    std::fs::remove_dir(&name).expect("a folder");
    for bad in [
        &format!("/tmp/{}", "x".repeat(120)),
        "/nonexistent/folder/x",
    ] {
        let complaint = Service::start("", bad, "").end();
        assert!(
            complaint.contains(bad) && complaint.lines().count() == 1,
            "{complaint}"
        );
    }
}

#[test]
fn forks_and_closed_descriptors_take_nothing_of_others() {
    let name = path("fork-%p");
    let shown = name.to_str().expect("plain");
    let service = Service::start("fork", shown, "");
    let own = shown.replace("%p", &service.0.id().to_string());
    metrics(Path::new(&own));
    std::thread::sleep(Duration::from_secs(2));
    let folder = std::env::temp_dir();
    let end = format!(".{}.socket", std::process::id());
    let names = std::fs::read_dir(&folder).expect("a folder").flatten();
    let names: Vec<PathBuf> = names
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("fork-") && name.ends_with(&end)
        })
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    names.iter().for_each(|name| drop(metrics(name)));
    service.end();
    let name = path("shared");
    let service = Service::start("fork", name.to_str().expect("plain"), "");
    std::thread::sleep(Duration::from_secs(2));
    (0..20).for_each(|_| drop(metrics(&name)));
    service.end();
    let name = path("closed");
    let service = Service::start("close", name.to_str().expect("plain"), "");
    assert_eq!(service.end(), "");
    let _ = std::fs::remove_file(&name);
}
