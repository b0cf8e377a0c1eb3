// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work for a server behind a Unix socket: all keys set once, then GETs without end, a hundred to
//! a batch, until the server is gone.

use ample_kit::random::{SplitMix64, Zipf};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Requests sent before answers are read.
const BATCH: u64 = 100;
/// A server under an emulator may take its time to start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// What the server speaks, and with it which keys it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireProtocol {
    /// RESP, uniformly random keys.
    Redis,
    /// Memcached's text protocol, Zipf(0.99) keys.
    Memcached,
}

/// The keys and values of a run.
#[derive(Clone, Copy, Debug)]
pub struct ServerLoad {
    pub protocol: WireProtocol,
    pub keys: u64,
    /// Bytes of each value.
    pub value_bytes: usize,
    pub seed: u64,
}

impl ServerLoad {
    fn set(&self, key: u64, value: &str) -> String {
        let bytes = self.value_bytes;
        match self.protocol {
            WireProtocol::Redis => {
                format!("*3\r\n$3\r\nSET\r\n$9\r\nk{key:08}\r\n${bytes}\r\n{value}\r\n")
            }
            WireProtocol::Memcached => format!("set k{key:08} 0 0 {bytes}\r\n{value}\r\n"),
        }
    }

    fn get(&self, key: u64) -> String {
        match self.protocol {
            WireProtocol::Redis => format!("*2\r\n$3\r\nGET\r\n$9\r\nk{key:08}\r\n"),
            WireProtocol::Memcached => format!("get k{key:08}\r\n"),
        }
    }

    /// What the answers to a SET and to a GET look like; the key stands in for any.
    fn answers(&self, value: &str) -> (String, String) {
        let bytes = self.value_bytes;
        match self.protocol {
            WireProtocol::Redis => ("+OK\r\n".into(), format!("${bytes}\r\n{value}\r\n")),
            WireProtocol::Memcached => (
                "STORED\r\n".into(),
                format!("VALUE k00000000 0 {bytes}\r\n{value}\r\nEND\r\n"),
            ),
        }
    }

    /// Serves the server until it is gone, which is the way it ends; `gone` says so of one that
    /// never opened its socket.
    ///
    /// # Errors
    /// If it does not start, or answers with anything but what it was given.
    pub fn drive(&self, socket: &Path, gone: &AtomicBool) -> Result<()> {
        let mut stream = connect(socket, gone)?;
        let value = "x".repeat(self.value_bytes);
        let (stored, found) = self.answers(&value);
        let mut batch = String::new();
        for first in (0..self.keys).step_by(BATCH as usize) {
            batch.clear();
            let count = BATCH.min(self.keys - first);
            (first..first + count).for_each(|key| batch += &self.set(key, &value));
            if !exchange(&mut stream, &batch, stored.len(), count, &stored[..1])? {
                return Ok(());
            }
        }
        let zipf = (self.protocol == WireProtocol::Memcached).then(|| Zipf::new(self.keys, 0.99));
        let mut rng = SplitMix64::scattered(self.seed);
        loop {
            batch.clear();
            for _ in 0..BATCH {
                let key = match &zipf {
                    Some(zipf) => zipf.sample(&mut rng) % self.keys,
                    None => rng.below(self.keys),
                };
                batch += &self.get(key);
            }
            if !exchange(&mut stream, &batch, found.len(), BATCH, &found[..1])? {
                return Ok(());
            }
        }
    }
}

fn connect(socket: &Path, gone: &AtomicBool) -> Result<UnixStream> {
    let clock = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if gone.load(Ordering::Relaxed) || clock.elapsed() > START_LIMIT => {
                return Err(error).context("the server does not open its socket");
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Sends a batch and reads its answers, all of one length and start; false: the server is gone.
fn exchange(
    stream: &mut UnixStream,
    batch: &str,
    answer_bytes: usize,
    count: u64,
    start: &str,
) -> Result<bool> {
    let mut answers = vec![0; answer_bytes * count as usize];
    if stream.write_all(batch.as_bytes()).is_err() || stream.read_exact(&mut answers).is_err() {
        return Ok(false);
    }
    for answer in answers.chunks_exact(answer_bytes) {
        if !answer.starts_with(start.as_bytes()) || !answer.ends_with(b"\r\n") {
            let text = String::from_utf8_lossy(answer);
            bail!("the server answers {:?}", text.get(..40).unwrap_or(&text));
        }
    }
    ensure!(count > 0, "an empty batch");
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A server that stores nothing and knows everything.
    fn serve(listener: &UnixListener, load: ServerLoad, batches: usize) {
        let (mut stream, _) = listener.accept().unwrap();
        let value = "x".repeat(load.value_bytes);
        let (stored, found) = load.answers(&value);
        let mut batch = vec![0; load.set(0, &value).len() * load.keys as usize];
        stream.read_exact(&mut batch).unwrap();
        let answer = stored.repeat(load.keys as usize);
        stream.write_all(answer.as_bytes()).unwrap();
        for _ in 0..batches {
            let mut batch = vec![0; load.get(0).len() * BATCH as usize];
            stream.read_exact(&mut batch).unwrap();
            let answer = found.repeat(BATCH as usize);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    }

    #[test]
    fn requests_and_answers_have_the_lengths_the_client_counts_on() {
        for protocol in [WireProtocol::Redis, WireProtocol::Memcached] {
            let load = ServerLoad {
                protocol,
                keys: 70,
                value_bytes: 32,
                seed: 1,
            };
            let name = format!("ample-client-{protocol:?}-{}", std::process::id());
            let socket = std::env::temp_dir().join(name);
            let listener = UnixListener::bind(&socket).unwrap();
            let server = std::thread::spawn(move || serve(&listener, load, 3));
            load.drive(&socket, &AtomicBool::new(false)).unwrap();
            server.join().unwrap();
            std::fs::remove_file(&socket).unwrap();
        }
    }
}
