// SPDX-License-Identifier: MIT OR Apache-2.0
//! An object store on loopback that does what it is told, wrong things included: as much of the S3
//! protocol as lists, reads and writes objects (List version 2, pages of three).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The language of lists.
const XML: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// When every object changed last, in seconds since 1970; the two texts below say the same.
pub const MODIFIED_SECONDS: u64 = 1_793_491_200;

/// What is wrong with the store, for objects whose key contains the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Takes the request and never answers.
    Silent(&'static str),
    /// One byte each 50 ms.
    Trickle(&'static str),
    /// Says a length and closes before it is sent.
    Truncated(&'static str),
    /// Answers with fewer bytes than the list says, all in order otherwise.
    Shorter(&'static str),
    /// Changes a byte in the middle.
    Flipped(&'static str),
    /// Gone since the list was made.
    Gone(&'static str),
    /// Another version than the list said.
    Newer(&'static str),
    /// This status to everything.
    Status(u16),
    /// Status 500.
    Broken(&'static str),
    /// The whole object, whichever part is asked for.
    Whole,
    /// Lists the same without end.
    Circle,
    /// Lists folders without end, so many on a page.
    Endless(usize),
    /// Answers in another language.
    Garbage,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    faults: Vec<Fault>,
    requests: Vec<String>,
}

/// A store with one bucket, `scans`.
pub struct S3 {
    endpoint: String,
    state: Arc<Mutex<State>>,
}

impl S3 {
    pub fn start() -> S3 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let own = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let state = own.clone();
                std::thread::spawn(move || drop(serve(client.unwrap(), &state)));
            }
        });
        S3 { endpoint, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What a program needs to find it.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_REGION", "test-1".into()),
            ("AWS_ACCESS_KEY_ID", "name".into()),
            ("AWS_SECRET_ACCESS_KEY", "secret".into()),
        ]
    }

    pub fn put(&self, key: &str, bytes: Vec<u8>) {
        self.state().objects.insert(key.into(), bytes);
    }

    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        self.state().objects.clone()
    }

    pub fn fail(&self, faults: &[Fault]) {
        self.state().faults = faults.to_vec();
    }

    /// First lines of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }
}

fn serve(mut client: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(10)))?;
    let (head, body) = request(&mut client)?;
    let line = head.lines().next().unwrap_or_default().to_string();
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = decoded(
        path.strip_prefix("/scans")
            .unwrap_or("")
            .trim_start_matches('/'),
    );
    let faults = {
        let mut state = state.lock().unwrap();
        state.requests.push(line.clone());
        state.faults.clone()
    };
    for fault in &faults {
        match fault {
            Fault::Silent(part) if key.contains(part) => {
                std::thread::sleep(Duration::from_secs(5));
                return Ok(());
            }
            Fault::Broken(part) if !key.is_empty() && key.contains(part) => {
                return answer(&mut client, 500, "", b"<Error/>");
            }
            Fault::Status(status) => return answer(&mut client, *status, "", b"<Error/>"),
            Fault::Garbage => return answer(&mut client, 200, "", b"<html>welcome</html>"),
            _ => {}
        }
    }
    assert!(query.contains("X-Amz-Signature="), "{line} is not signed");
    if method == "PUT" {
        assert!(
            head.to_lowercase().contains("x-amz-checksum-sha256:"),
            "{head}"
        );
        state.lock().unwrap().objects.insert(key, body);
        return answer(&mut client, 200, "ETag: \"new\"\r\n", b"");
    }
    let objects = state.lock().unwrap().objects.clone();
    if key.is_empty() {
        let endless = faults.iter().find_map(|fault| match fault {
            Fault::Endless(folders) => Some(*folders),
            _ => None,
        });
        let list = match endless {
            Some(folders) => folders_without_end(folders, state.lock().unwrap().requests.len()),
            None => listing(&objects, query, faults.contains(&Fault::Circle)),
        };
        return answer(
            &mut client,
            200,
            "Content-Type: application/xml\r\n",
            list.as_bytes(),
        );
    }
    match objects.get(&key) {
        Some(bytes) => object(&mut client, &head, &key, bytes, &faults),
        None => answer(
            &mut client,
            404,
            "",
            b"<Error><Code>NoSuchKey</Code></Error>",
        ),
    }
}

fn request(client: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = field(&head, "content-length").and_then(|own| own.parse().ok());
            let mut body = bytes.split_off(end + 4);
            while body.len() < length.unwrap_or(0) {
                match client.read(&mut buffer)? {
                    0 => break,
                    count => body.extend(&buffer[..count]),
                }
            }
            return Ok((head, body));
        }
        match client.read(&mut buffer)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend(&buffer[..count]),
        }
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let own = |line: &&str| line.to_lowercase().starts_with(&format!("{name}:"));
    let line = head.lines().find(own)?;
    Some(line.split_once(':')?.1.trim())
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        let hex = (first == b'%').then(|| more.get(..2)).flatten();
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn answer(client: &mut TcpStream, status: u16, fields: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} so\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body)
}

/// A page of three objects; a circle begins anew where it ends.
fn listing(objects: &BTreeMap<String, Vec<u8>>, query: &str, circle: bool) -> String {
    let of = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.find(|(own, _)| *own == name).map(|(_, value)| value);
        value.map(decoded).unwrap_or_default()
    };
    let (prefix, from) = (of("prefix"), of("continuation-token"));
    let from: usize = from.parse().unwrap_or(0);
    let own: Vec<_> = (objects.iter())
        .filter(|(key, _)| key.starts_with(&prefix))
        .collect();
    let mut text = format!("<ListBucketResult xmlns=\"{XML}\">");
    for (key, bytes) in own.iter().skip(from).take(3) {
        text += &format!(
            "<Contents><Key>{key}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>\
             <ETag>&quot;{}&quot;</ETag><Size>{}</Size></Contents>",
            bytes.len(),
            bytes.len()
        );
    }
    let more = from + 3 < own.len();
    if more || circle {
        let next = if more { from + 3 } else { 0 };
        text += &format!("<NextContinuationToken>{next}</NextContinuationToken>");
    }
    text + &format!(
        "<IsTruncated>{}</IsTruncated></ListBucketResult>",
        more || circle
    )
}

/// A page of folders that no page before has named.
fn folders_without_end(folders: usize, page: usize) -> String {
    let one = |at| format!("<Contents><Key>a/{page}-{at}/</Key><Size>0</Size></Contents>");
    let all: String = (0..folders).map(one).collect();
    format!(
        "<ListBucketResult xmlns=\"{XML}\">{all}<NextContinuationToken>{page}\
         </NextContinuationToken><IsTruncated>true</IsTruncated></ListBucketResult>"
    )
}

/// An object, or the part of it that is asked for, with what is wrong with it.
fn object(
    client: &mut TcpStream,
    head: &str,
    key: &str,
    whole: &[u8],
    faults: &[Fault],
) -> std::io::Result<()> {
    let mut bytes = whole.to_vec();
    let (mut trickle, mut truncated) = (false, false);
    for fault in faults {
        match fault {
            Fault::Gone(part) if key.contains(part) => return answer(client, 404, "", b""),
            Fault::Newer(part) if key.contains(part) && field(head, "if-match").is_some() => {
                return answer(client, 412, "", b"");
            }
            Fault::Flipped(part) if key.contains(part) => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            Fault::Shorter(part) if key.contains(part) => bytes.truncate(whole.len() / 2),
            Fault::Trickle(part) => trickle |= key.contains(part),
            Fault::Truncated(part) => truncated |= key.contains(part),
            _ => {}
        }
    }
    let range = field(head, "range").filter(|_| !faults.contains(&Fault::Whole));
    let range = range.and_then(|own| own.strip_prefix("bytes="));
    let range = range.and_then(|own| own.split_once('-'));
    let range = range.map(|(from, to)| {
        let from = from.parse::<usize>().unwrap().min(bytes.len());
        (from, (to.parse::<usize>().unwrap() + 1).min(bytes.len()))
    });
    let mut fields = format!(
        "ETag: \"{}\"\r\nLast-Modified: Sun, 01 Nov 2026 00:00:00 GMT\r\n",
        whole.len()
    );
    let status = match range {
        Some((from, to)) => {
            fields += &format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, bytes.len());
            bytes = bytes[from..to].to_vec();
            206
        }
        None => 200,
    };
    if !trickle && !truncated {
        return answer(client, status, &fields, &bytes);
    }
    let length = bytes.len();
    let head = format!(
        "HTTP/1.1 {status} so\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes())?;
    if truncated {
        return client.write_all(&bytes[..length / 2]);
    }
    for byte in bytes.chunks(1).take(200) {
        client.write_all(byte)?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
