//! Reports over HTTP with TLS: what the client trusts and shows, and why it does not get an answer.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::serving::Serving;
use common::{RunResult, WorkingDir};
use esker_redis_testkit::certificates::Authority;

/// A server with TLS at its admin address. Returns HOST:PORT, by the name that its certificate has.
fn serve(dir: &WorkingDir, auth_clients: &str) -> (Serving, String) {
    let command = dir.command(&format!(
        "serve db --redis off --dsl 127.0.0.1:0 --log off --admin 127.0.0.1:0 --admin-tls \
         --redis-set tls-cert-file server.crt --redis-set tls-key-file server.key \
         --redis-set tls-ca-cert-file ca.crt --redis-set tls-auth-clients {auth_clients}"
    ));
    let mut serving = Serving::start(command, 2);
    let address = serving.address("on https://").replace("127.0.0.1", "localhost");
    (serving, address)
}

fn refused(ran: &RunResult, told: &str, advised: &str) {
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains(told) && ran.err.contains(advised) && ran.out.is_empty(), "{told}: {ran:?}");
}

#[test]
fn reports_are_asked_over_tls() {
    let dir = WorkingDir::new();
    let authority = Authority::new(dir.path(), "ca");
    authority.certify("server");
    let (serving, address) = serve(&dir, "no");
    let tls = "--tls --tls-ca ca.crt";
    assert!(dir.ok(&format!("stats --connect {address} {tls}")).contains("memory budget"));
    assert!(dir.ok(&format!("levels --connect {address} {tls}")).contains("default"));
    let frame = dir.ok(&format!("top --once --interval 10ms --connect {address} {tls}"));
    assert!(frame.contains("memory"), "{frame}");

    let plain = dir.run(&format!("stats --connect {address}"));
    refused(&plain, &format!("{address} takes clients with TLS only"), "--tls-ca FILE");
    let other_name = address.replace("localhost", "127.0.0.1");
    let ran = dir.run(&format!("stats --connect {other_name} {tls}"));
    refused(&ran, "its certificate is for ", "connect by a name that the certificate has");
    assert!(ran.err.contains("not for 127.0.0.1"), "{ran:?}");
    Authority::new(dir.path(), "other");
    let stranger = dir.run(&format!("stats --connect {address} --tls --tls-ca other.crt"));
    refused(&stranger, "its certificate is of no authority in other.crt", "--tls-ca FILE");
    assert_eq!(serving.end().code, Some(0));
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let dir = WorkingDir::new();
    let authority = Authority::new(dir.path(), "ca");
    authority.certify("server");
    authority.certify("client");
    Authority::new(dir.path(), "other").certify("stranger");
    let (serving, address) = serve(&dir, "yes");
    let ask = |own: &str| dir.run(&format!("stalls --connect {address} --tls --tls-ca ca.crt {own}"));
    let shown = ask("--tls-cert client.crt --tls-key client.key");
    assert!(shown.code == 0 && shown.text().contains("writes slowed"), "{shown:?}");
    refused(&ask(""), "it wants a certificate of the client", "--tls-cert FILE");
    let stranger = ask("--tls-cert stranger.crt --tls-key stranger.key");
    refused(&stranger, "it does not accept the certificate of the client", "tls-ca-cert-file");
    assert_eq!(serving.end().code, Some(0));
}

/// What `openssl req -x509` makes by default is an authority's, and other clients accept it.
#[test]
fn a_server_that_shows_an_authority_is_told_from_one_with_another_name() {
    let dir = WorkingDir::new();
    let authority = Authority::new(dir.path(), "server");
    authority.itself();
    Authority::new(dir.path(), "ca");
    let (serving, address) = serve(&dir, "no");
    let ran = dir.run(&format!("stats --connect {address} --tls --tls-ca server.crt"));
    refused(&ran, "its certificate is that of an authority", "basicConstraints=critical,CA:FALSE");
    assert_eq!(serving.end().code, Some(0));
}

#[test]
fn a_server_without_tls_and_files_that_are_wrong_are_named() {
    let dir = WorkingDir::new();
    Authority::new(dir.path(), "ca").certify("client");
    dir.write("empty", "nothing");
    let command = dir.command("serve db --redis off --dsl 127.0.0.1:0 --log off --admin 127.0.0.1:0");
    let mut serving = Serving::start(command, 2);
    let (text, address) = (serving.address("serving "), serving.address("status page"));
    let ran = dir.run(&format!("stats --connect {address} --tls --tls-ca ca.crt"));
    refused(&ran, "it does not speak TLS", "leave --tls out");
    let ran = dir.run(&format!("stats --connect {text} --tls --tls-ca ca.crt"));
    refused(&ran, &format!("cannot use TLS with {text}"), "");
    for (options, told) in [
        ("--tls --tls-ca missing.crt", "missing.crt: cannot read the file"),
        ("--tls --tls-ca empty", "empty: there is no certificate in the file"),
        ("--tls --tls-ca ca.crt --tls-cert client.crt --tls-key empty", "empty: there is no private key"),
        ("--tls --tls-ca ca.crt --tls-cert client.crt", "--tls-key"),
        ("--tls-ca ca.crt", "--tls"),
    ] {
        let ran = dir.run(&format!("stats --connect {address} {options}"));
        assert!(ran.code == 2 && ran.err.contains(told), "{options}: {ran:?}");
    }
    assert_eq!(serving.end().code, Some(0));
}
