//! The project's own checks: `cargo xtask <command>`.
//!
//! Rules that a program can check are checked here and run in `.ci/run`:
//!
//! * `arch`: crates and modules depend on lower ones only, third-party crates stay on the floors that need
//!   them, and unsafe code stays in the listed modules ([`arch`]).
//! * `tidy`: sizes of files and functions, files that nothing compiles, forbidden words, broken links
//!   ([`tidy`]).
//! * `instructions`: instruction counts of the hot paths against their bounds ([`instructions`]).
//! * `bugs`: the bug bank: planted bugs, and the tests that notice them ([`bugs`]).
//! * `asan`, `tsan`, `miri`: tests under sanitizers, with a nightly toolchain ([`sanitizers`]).
//! * `proto`: the generated code of the gRPC service ([`proto`]).
//! * `kill-loop`: the kill loop of `testkit` ([`kill_loop`]).
//!
//! Every finding says what to do. A warning leaves the exit code alone; an error does not.

// The checks read the repository's files and print to a terminal; they belong to no database.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command of the developer's, not a part of the store"
)]
#![forbid(unsafe_code)]

mod arch;
mod bugs;
mod findings;
mod instructions;
mod kill_loop;
mod proto;
mod repository;
mod sanitizers;
mod tidy;

use findings::Findings;
use repository::Repository;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  arch                  dependencies between floors and modules, third-party crates, unsafe code;
                        --order CRATE [FOLDER] prints the order of its modules
  tidy                  sizes, dead files, words, links
  instructions          what the hot paths take, by callgrind, beside bench/instructions.toml; --update writes that
  bugs [--fast|NAME..]  plant each bug of the bank, and see which test notices it
  asan | tsan | miri    the tests of unsafe code under sanitizers, or interpreted; needs a nightly toolchain
  proto [--check]       generate the code of the gRPC service, or check that it is what the .proto file says
  kill-loop --kills N   kill a writing process N times, reopen and check after each";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["arch"] => check("arch", arch::check),
        ["arch", "--order", rest @ ..] => arch::print_order(rest),
        ["tidy"] => check("tidy", tidy::check),
        ["instructions", rest @ ..] => instructions::run(rest),
        ["bugs", rest @ ..] => bugs::run(rest),
        [tool @ ("asan" | "tsan" | "miri"), rest @ ..] => sanitizers::run(tool, rest),
        ["proto", rest @ ..] => proto::run(rest),
        ["kill-loop", rest @ ..] => kill_loop::run(rest),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => usage_error(USAGE),
    }
}

fn usage_error(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}

fn check(name: &str, checks: fn(&Repository, &mut Findings)) -> ExitCode {
    let repository = match Repository::open() {
        Ok(repository) => repository,
        Err(error) => {
            eprintln!("cargo xtask {name}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut findings = Findings::default();
    checks(&repository, &mut findings);
    print!("{findings}");
    println!("cargo xtask {name}: {}", findings.summary());
    if findings.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
