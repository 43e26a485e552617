//! The program `esker`. The library of this crate does all of its work.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    esker_cli::main()
}
