// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to a bucket: signed, bounded, and tried again where that may help.

use crate::StoreAccess;
use anyhow::{Result, anyhow, bail};
use base64::Engine;
use rusty_s3::{Bucket, Credentials, S3Action};
use sha2::{Digest, Sha256};
use std::time::Duration;
use std::{fmt, thread};
use ureq::http::Response;
use ureq::tls::TlsConfig;
use ureq::{Agent, Body};
use url::Url;

/// A request is sent that many times.
const TRIES: u32 = 3;
/// Before the second try; twice that before the third.
const PAUSE: Duration = Duration::from_millis(100);
/// The status of an answer that is the part that was asked for.
const PARTIAL: u16 = 206;
/// The header of the sum of what is written.
const CHECKSUM: &str = "x-amz-checksum-sha256";

/// There is no such object, or no longer the one that was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent;

impl fmt::Display for Absent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not found, or changed since it was listed")
    }
}

impl std::error::Error for Absent {}

/// One bucket, and how it is asked.
pub(crate) struct Requests {
    bucket: Bucket,
    credentials: Option<Credentials>,
    agent: Agent,
    /// How long a signature is valid.
    valid: Duration,
}

impl fmt::Debug for Requests {
    /// Without the secrets.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "requests to {}", self.bucket())
    }
}

/// Why a try came to nothing.
enum Failure {
    /// It may go better the next time.
    Passing(anyhow::Error),
    /// It will not.
    Final(anyhow::Error),
}

impl Requests {
    pub fn new(bucket: &str, access: &StoreAccess) -> Result<Requests> {
        let tls = TlsConfig::builder().root_certs(access.authorities()?);
        let agent = Agent::config_builder()
            .tls_config(tls.build())
            .timeout_global(Some(access.patience))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent("ample")
            .build();
        Ok(Requests {
            bucket: access.bucket(bucket)?,
            credentials: access.credentials()?,
            agent: agent.into(),
            valid: Duration::from_secs(900).max(2 * access.patience),
        })
    }

    /// Name of the bucket.
    pub fn bucket(&self) -> &str {
        self.bucket.name()
    }

    /// A page of the list of keys with this beginning.
    pub fn list(&self, prefix: &str, from: Option<&str>, most_bytes: u64) -> Result<Vec<u8>> {
        let mut list = self.bucket.list_objects_v2(self.credentials.as_ref());
        if !prefix.is_empty() {
            list.with_prefix(prefix);
        }
        if let Some(from) = from {
            list.with_continuation_token(from);
        }
        tried(|| self.get(&list.sign(self.valid), &[], most_bytes))
    }

    /// An object or a part of it, of at most `most_bytes`.
    pub fn object(
        &self,
        key: &str,
        headers: &[(&str, String)],
        most_bytes: u64,
    ) -> Result<Vec<u8>> {
        let get = self.bucket.get_object(self.credentials.as_ref(), key);
        tried(|| self.get(&get.sign(self.valid), headers, most_bytes))
    }

    fn get(
        &self,
        url: &Url,
        headers: &[(&str, String)],
        most_bytes: u64,
    ) -> Result<Vec<u8>, Failure> {
        let mut request = self.agent.get(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answer = accepted(request.call())?;
        let status = answer.status().as_u16();
        if status != PARTIAL && headers.iter().any(|(name, _)| *name == "range") {
            return Err(Failure::Final(anyhow!(
                "the store ignores Range: it answers with status {status}, not {PARTIAL}, where a \
                 part is asked for"
            )));
        }
        // One byte more shows that there is more.
        let body = answer.into_body().into_with_config().limit(most_bytes + 1);
        body.read_to_vec().map_err(failure)
    }

    /// Writes an object with the sum of its bytes.
    pub fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let sum = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(bytes));
        let mut put = self.bucket.put_object(self.credentials.as_ref(), key);
        put.headers_mut().insert(CHECKSUM, sum.as_str());
        tried(|| {
            let request = self.agent.put(put.sign(self.valid).as_str());
            accepted(request.header(CHECKSUM, &sum).send(bytes)).map(drop)
        })
    }
}

/// Does some work up to three times.
fn tried<T>(work: impl Fn() -> Result<T, Failure>) -> Result<T> {
    for before in 1.. {
        match work() {
            Ok(result) => return Ok(result),
            Err(Failure::Passing(_)) if before < TRIES => thread::sleep(PAUSE * before),
            Err(Failure::Passing(error) | Failure::Final(error)) => return Err(error),
        }
    }
    bail!("not tried")
}

/// An answer that says yes.
fn accepted(answer: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, Failure> {
    let answer = answer.map_err(failure)?;
    let status = answer.status().as_u16();
    match status {
        200..=299 => Ok(answer),
        404 | 412 => Err(Failure::Final(Absent.into())),
        300..=399 => Err(Failure::Final(anyhow!(
            "the store sends the request elsewhere (status {status}): is AWS_REGION right?"
        ))),
        401 | 403 => Err(Failure::Final(anyhow!(
            "the store refuses (status {status}): check AWS_ACCESS_KEY_ID and what it may do"
        ))),
        408 | 429 | 500..=599 => Err(Failure::Passing(anyhow!("status {status}"))),
        _ => Err(Failure::Final(anyhow!("status {status}"))),
    }
}

/// An error of the library, without the address, which is signed.
fn failure(error: ureq::Error) -> Failure {
    match error {
        ureq::Error::BodyExceedsLimit(_) => {
            Failure::Final(anyhow!("more bytes come than the list of the store says"))
        }
        ureq::Error::Timeout(_) => Failure::Passing(anyhow!("no answer in time ({error})")),
        ureq::Error::BadUri(_) | ureq::Error::RequireHttpsOnly(_) => {
            Failure::Final(anyhow!("an address that cannot be"))
        }
        _ => Failure::Passing(anyhow!(error)),
    }
}
