//! Each way to log in, against a server that demands it: an nkey over TLS, and a credentials file. The keys in
//! `tests/data` are these tests' own.

use std::path::{Path, PathBuf};

use cronstream_bus::{Bus, ConnectOptions};

use crate::server::{Server, init, within};

/// The public part of `user.seed`.
const USER: &str = "UDGOKZ5NZPPUF2FINVK6LLGOAI5ZDI2N3MXMUI7FC7U5THY2UI7K3W3U";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

async fn is_refused(options: ConnectOptions) {
    let refused = within("refusal", Bus::connect(options)).await;
    assert!(refused.is_err(), "a wrong login gets in");
}

async fn works(options: ConnectOptions) {
    let bus = within("connect", Bus::connect(options)).await.unwrap();
    within("init", bus.init(&init(1))).await.unwrap();
    within("check", bus.check()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_nkey_over_tls_logs_in_and_neither_alone_does() {
    let server = Server::start_with(&format!(
        "tls {{ cert_file: {:?}, key_file: {:?} }}\nauthorization {{ users: [ {{ nkey: {USER} }} ] }}",
        data("server.pem"),
        data("server.key"),
    ));
    let (nkey, ca) = (Some(data("user.seed")), Some(data("ca.pem")));
    let options =
        |nkey_seed_file, tls_ca| ConnectOptions { nkey_seed_file, tls_ca, ..server.options() };
    works(options(nkey.clone(), ca.clone())).await;
    is_refused(options(None, ca)).await;
    is_refused(options(nkey, None)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credentials_file_logs_in_and_nobody_does_without() {
    let operator = std::fs::read_to_string(data("operator.conf")).unwrap();
    let server = Server::start_with(&operator);
    works(ConnectOptions { creds: Some(data("user.creds")), ..server.options() }).await;
    is_refused(server.options()).await;
}
