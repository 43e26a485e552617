//! `asan`, `tsan`, `miri`: the tests of the crates with unsafe code under a sanitizer or an interpreter.
//!
//! All three need a nightly toolchain: `rustup toolchain install nightly --component rust-src,miri`. Each
//! builds into a folder of its own below the target folder. AddressSanitizer finds accesses outside of an
//! allocation and after its end, and leaks; ThreadSanitizer finds data races, and needs the standard library
//! built with it; Miri interprets, and finds undefined behaviour that both do not see, hundreds of times
//! slower: so it gets the modules with unsafe code and those that call them, and the tests there that would
//! interpret millions of steps do less under it, or are ignored.

use crate::{repository, usage_error};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

const USAGE: &str = "usage: cargo xtask asan|tsan|miri [FILTER]";

/// The target that the sanitizers are built for. Naming one keeps them out of build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A way of running tests.
struct Tool {
    name: &'static str,
    rustflags: &'static str,
    /// Between `cargo +nightly` and the packages.
    command: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// Package, and arguments behind `--package NAME`.
    packages: &'static [(&'static str, &'static [&'static str])],
    /// Parts of names of the tests, for each package that does not run all of its tests.
    filters: &'static [(&'static str, &'static [&'static str])],
    /// Parts of names of tests that are left out.
    skips: &'static [&'static str],
}

/// The crates with unsafe code, and above them the workloads that use it from many threads.
const TOOLS: &[Tool] = &[
    Tool {
        name: "asan",
        rustflags: "-Zsanitizer=address",
        command: &["test", "--target", TARGET],
        env: &[
            ("ESKER_PLANS", "3"),
            // Sources in C are watched as well. Frames are several times as large as without the sanitizer.
            ("CFLAGS", "-fsanitize=address -fno-omit-frame-pointer -O1 -g"),
            ("RUST_MIN_STACK", "33554432"),
        ],
        packages: &[
            // Documentation tests are not built with the flags.
            ("esker-env", &["--lib", "--tests"]),
            ("esker-filter", &["--lib"]),
            ("esker-lua", &["--lib", "--test", "attacks", "--test", "engine", "--test", "fuzz"]),
            ("esker-memtable", &["--lib", "--tests"]),
            ("esker-sst", &["--lib"]),
            ("esker-testkit", &["--test", "concurrency", "--test", "moving_memory", "--test", "model"]),
        ],
        filters: &[],
        skips: &[],
    },
    Tool {
        name: "tsan",
        rustflags: "-Zsanitizer=thread",
        command: &["test", "--target", TARGET, "-Zbuild-std"],
        env: &[("ESKER_PLANS", "1"), ("TSAN_OPTIONS", "halt_on_error=1")],
        packages: &[
            ("esker-env", &["--lib"]),
            ("esker-memtable", &["--test", "concurrent"]),
            ("esker-sst", &["--lib"]),
            ("esker-testkit", &["--test", "concurrency", "--test", "moving_memory"]),
        ],
        filters: &[],
        skips: &[],
    },
    Tool {
        name: "miri",
        rustflags: "",
        command: &["miri", "test"],
        env: &[("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-permissive-provenance")],
        packages: &[("esker-memtable", &["--lib"]), ("esker-filter", &["--lib"]), ("esker-env", &["--lib"])],
        filters: &[
            ("esker-filter", &["probe::"]),
            ("esker-env", &["c_heap", "huge_page_heap", "memory::", "off_heap", "published", "slabs"]),
        ],
        // What maps files cannot be interpreted, and the memtables for comparison have no unsafe code.
        skips: &["mapping", "reference::"],
    },
];

pub(crate) fn run(name: &str, arguments: &[&str]) -> ExitCode {
    let (Some(tool), [] | [_]) = (TOOLS.iter().find(|tool| tool.name == name), arguments) else {
        return usage_error(USAGE);
    };
    for (package, targets) in tool.packages {
        match command(tool, package, targets, arguments).status() {
            Ok(status) if status.success() => {}
            Ok(_) => {
                eprintln!("cargo xtask {name}: {package} failed");
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("cannot run cargo: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn command(tool: &Tool, package: &str, targets: &[&str], filter: &[&str]) -> Command {
    // By its own name: this program was started by another toolchain's cargo, which its variable names.
    let mut command = Command::new("cargo");
    command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN").arg("+nightly");
    command.args(tool.command).args(["--package", package]).args(targets);
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository::root().join("target"), PathBuf::from);
    command.env("CARGO_TARGET_DIR", target.join(tool.name));
    if !tool.rustflags.is_empty() {
        command.env("RUSTFLAGS", tool.rustflags);
    }
    command.envs(tool.env.iter().copied()).current_dir(repository::root());
    // A job in the background that asks a terminal is stopped.
    command.stdin(Stdio::null());
    command.arg("--");
    let filters = tool.filters.iter().find(|(name, _)| *name == package);
    command.args(if filter.is_empty() { filters.map_or(&[][..], |(_, filters)| filters) } else { filter });
    for skip in tool.skips {
        command.args(["--skip", skip]);
    }
    command
}
