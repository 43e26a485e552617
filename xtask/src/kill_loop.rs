//! `kill-loop`: runs the kill loop of `testkit`, optimised, for any number of kills.

use crate::usage_error;
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask kill-loop --kills N";

pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let kills = match arguments {
        ["--kills", kills] => kills.parse::<u64>(),
        _ => return usage_error(USAGE),
    };
    let Ok(kills) = kills else { return usage_error(USAGE) };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "test",
        "--package",
        "esker-testkit",
        "--release",
        "--test",
        "kill_loop",
        "--",
        "--nocapture",
    ]);
    command.env("ESKER_KILLS", kills.to_string());
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}
