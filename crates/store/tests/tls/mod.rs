// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store with a certificate of the house: believed with the file that vouches for it, else not.

use super::s3::S3;
use ample_store::{ObjectStore, StoreAccess};
use anyhow::Result;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The certificate beside this file, which opens nothing: made by
/// `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem
/// -out authority.pem -days 36500 -subj /CN=loopback -addext subjectAltName=IP:127.0.0.1
/// -addext basicConstraints=critical,CA:FALSE`.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls")
}

/// Puts TLS before a store that has none; where it listens. Requests have no body.
fn behind_tls(store: &S3) -> SocketAddr {
    let own = CertificateDer::from_pem_file(folder().join("authority.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder().join("key.pem")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![own], key).unwrap());
    let inner = store.environment()[0].1.replace("http://", "");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            // A client that does not believe the certificate goes away.
            let _ = pass(StreamOwned::new(connection, client.unwrap()), &inner);
        }
    });
    address
}

fn pass(mut outer: StreamOwned<ServerConnection, TcpStream>, inner: &str) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        outer.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let mut inner = TcpStream::connect(inner)?;
    inner.write_all(&head)?;
    io::copy(&mut inner, &mut outer)?;
    outer.conn.send_close_notify();
    outer.flush()
}

/// The keys of the store, as one asks who believes this file.
fn keys(address: SocketAddr, authorities: Option<&Path>) -> Result<Vec<String>> {
    let mut variables = vec![
        ("AWS_ENDPOINT_URL".into(), format!("https://{address}")),
        ("AWS_ACCESS_KEY_ID".into(), "name".into()),
        ("AWS_SECRET_ACCESS_KEY".into(), "secret".into()),
    ];
    if let Some(file) = authorities {
        variables.push(("AWS_CA_BUNDLE".into(), file.display().to_string()));
    }
    let access = StoreAccess::new(Duration::from_secs(10), variables);
    let objects = ObjectStore::open("scans", &access)?.list("")?;
    Ok(objects.into_iter().map(|object| object.key).collect())
}

#[test]
fn a_certificate_of_the_house_needs_the_file_that_vouches_for_it() {
    let store = S3::start();
    store.put("host1.snap", b"scan".to_vec());
    let address = behind_tls(&store);
    let authority = folder().join("authority.pem");
    assert_eq!(keys(address, Some(&authority)).unwrap(), ["host1.snap"]);
    let told = format!("{:#}", keys(address, None).unwrap_err());
    assert!(told.contains("certificate"), "{told}");
    for (file, word) in [
        (folder().join("no.pem"), "cannot read AWS_CA_BUNDLE"),
        (folder().join("key.pem"), "holds no certificate"),
        (PathBuf::from(file!()), "AWS_CA_BUNDLE"),
    ] {
        let told = format!("{:#}", keys(address, Some(&file)).unwrap_err());
        assert!(told.contains(word), "{told}");
    }
}
