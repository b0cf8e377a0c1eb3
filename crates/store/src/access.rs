// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a store is, and as whom it is asked.

use anyhow::{Context, Result, ensure};
use rusty_s3::{Bucket, Credentials, UrlStyle};
use std::fmt;
use std::time::Duration;
use ureq::tls::{PemItem, RootCerts, parse_pem};
use url::Url;

/// Where no variable names a region.
const REGION: &str = "us-east-1";

/// How stores are reached.
#[derive(Clone)]
pub struct StoreAccess {
    /// No request and no part of an object may take longer.
    pub patience: Duration,
    variables: Vec<(String, String)>,
}

impl fmt::Debug for StoreAccess {
    /// Without the secrets.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.variables.iter().map(|(name, _)| name);
        write!(out, "{:?} ", self.patience)?;
        out.debug_list().entries(names).finish()
    }
}

impl StoreAccess {
    /// As variables such as `AWS_REGION` and what they say.
    pub fn new(
        patience: Duration,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> StoreAccess {
        StoreAccess {
            patience,
            variables: variables.into_iter().collect(),
        }
    }

    /// As the environment of the process says.
    pub fn of_environment(patience: Duration) -> StoreAccess {
        let text = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("AWS_"));
        StoreAccess::new(patience, text)
    }

    /// A variable that says something.
    fn get(&self, name: &str) -> Option<&str> {
        let own = self.variables.iter().find(|(own, _)| own == name);
        let value = own.map(|(_, value)| value.trim());
        value.filter(|value| !value.is_empty())
    }

    pub(crate) fn bucket(&self, name: &str) -> Result<Bucket> {
        let region = self.get("AWS_REGION").or(self.get("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or(REGION);
        let own = (self.get("AWS_ENDPOINT_URL_S3")).or(self.get("AWS_ENDPOINT_URL"));
        let (endpoint, style) = match own {
            Some(own) => (own.to_string(), UrlStyle::Path),
            None => {
                let host = format!("https://s3.{region}.amazonaws.com");
                (host, UrlStyle::VirtualHost)
            }
        };
        let endpoint = Url::parse(&endpoint);
        let endpoint = endpoint.context("AWS_ENDPOINT_URL is no address such as https://host")?;
        ensure!(
            endpoint.scheme() == "https" || self.get("AWS_ALLOW_HTTP") == Some("true"),
            "AWS_ENDPOINT_URL does not begin with https://; AWS_ALLOW_HTTP=true allows that"
        );
        let bucket = Bucket::new(endpoint, style, name.to_string(), region.to_string());
        bucket.context("no address for this bucket")
    }

    /// Whom to believe that a store is the one that was named: the authorities of the web, or those
    /// of a file, for a store with a certificate of the house.
    pub(crate) fn authorities(&self) -> Result<RootCerts> {
        let Some(file) = self.get("AWS_CA_BUNDLE") else {
            return Ok(RootCerts::WebPki);
        };
        let pem = std::fs::read(file);
        let pem = pem.with_context(|| format!("cannot read AWS_CA_BUNDLE, {file}"))?;
        let mut certificates = Vec::new();
        for item in parse_pem(&pem) {
            let item = item.with_context(|| format!("AWS_CA_BUNDLE, {file}, is damaged"))?;
            if let PemItem::Certificate(certificate) = item {
                certificates.push(certificate);
            }
        }
        ensure!(
            !certificates.is_empty(),
            "AWS_CA_BUNDLE, {file}, holds no certificate (-----BEGIN CERTIFICATE-----)"
        );
        Ok(certificates.into())
    }

    /// `None` to ask a public bucket.
    pub(crate) fn credentials(&self) -> Result<Option<Credentials>> {
        let key = self.get("AWS_ACCESS_KEY_ID");
        let both = key.zip(self.get("AWS_SECRET_ACCESS_KEY"));
        let Some((key, secret)) = both else {
            ensure!(
                self.get("AWS_SKIP_SIGNATURE") == Some("true"),
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set; \
                 AWS_SKIP_SIGNATURE=true asks a public bucket"
            );
            return Ok(None);
        };
        Ok(Some(match self.get("AWS_SESSION_TOKEN") {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        }))
    }
}
