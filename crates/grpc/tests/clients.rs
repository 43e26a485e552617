//! Clients of other languages: the programs of `bench/grpc/clients` against a server of this process.
//!
//! `bench/grpc/clients/run` fetches what they need; without it they are skipped with a message.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that tells what it skips")]

mod common;

use common::*;
use esker_grpc::{Config, Tokens};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

#[test]
fn programs_in_python_and_go_pass_their_checks() {
    let token = "0123456789abcdef0123456789abcdef";
    let access = Arc::new(Tokens::parse(token).unwrap());
    let served = Served::open(Directory::new(), Config::default(), access);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/grpc/clients/run");
    let mut command = Command::new(script);
    command.args(["--offline", "--token", token, "--address", &served.address.to_string()]);
    let ran = command.output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    println!("{told}");
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    for language in ["python", "go"] {
        let line = told.lines().find(|line| line.starts_with(language)).expect(language);
        assert!(line.ends_with("all checks passed") || line.contains("skipped"), "{line}");
    }
}
