//! `instructions`: compares the instructions of the hot paths with their bounds.
//!
//! A count of instructions is the same on a busy machine and on a quiet one, so it can fail a change where a
//! time cannot. `crates/esker/benches/hot_paths.rs` runs the paths, deterministically, under callgrind, which
//! counts what the calling thread does inside the function that marks a path and writes one file for each
//! ([`callgrind`]). `bench/instructions.toml` has the bounds, and what they were counted with ([`bounds`]):
//! another compiler, C library, valgrind or processor gives other counts, which are shown and fail nothing.
//!
//! Not counted: the kernel's instructions, cache misses, and whatever depends on data beyond the caches.

mod bounds;
mod callgrind;

use crate::usage_error;
use bounds::{Bounds, Verdict};
use cargo_metadata::Message;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const USAGE: &str = "usage: cargo xtask instructions [--update]";
/// The program that runs the paths.
const PROGRAM: &str = "hot_paths";
/// Path of the bounds, from the root.
const BOUNDS: &str = "bench/instructions.toml";

/// Counts, and compares with the bounds or rewrites them.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let is_update = match arguments {
        [] => false,
        ["--update"] => true,
        _ => return usage_error(USAGE),
    };
    match count_and_compare(is_update) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo xtask instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is within its bounds, or nothing can be compared.
fn count_and_compare(is_update: bool) -> Result<bool, String> {
    let Some(valgrind) = first_line("valgrind", &["--version"]) else {
        println!("skipped: valgrind is not installed");
        return Ok(true);
    };
    let root = crate::repository::root();
    let program = build(&root)?;
    let counted = Bounds { counted_with: toolchain(valgrind), paths: callgrind::count(&program)? };
    let path = root.join(BOUNDS);
    if is_update {
        std::fs::write(&path, counted.to_string())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!("{BOUNDS}: {} paths", counted.paths.len());
        return Ok(true);
    }
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let bounds: Bounds = text.parse().map_err(|error| format!("{BOUNDS}: {error}"))?;
    Ok(report(&bounds, &counted))
}

/// Prints each path beside its bound; returns whether all are within.
fn report(bounds: &Bounds, counted: &Bounds) -> bool {
    println!("{:<46} {:>10} {:>10} {:>8}", "instructions", "bound", "counted", "change");
    let rows = bounds.compare(counted);
    for row in &rows {
        let number = |count: Option<f64>| count.map_or("-".to_owned(), |count| format!("{count:.1}"));
        let change = row.change().map_or("-".to_owned(), |change| format!("{:+.1} %", change * 100.0));
        let (bound, now) = (number(row.bound), number(row.counted));
        println!("{:<46} {bound:>10} {now:>10} {change:>8}{}", row.path, row.verdict().remark());
    }
    let others = bounds.differences(counted);
    if !others.is_empty() {
        println!("nothing follows from this: the bounds were counted with {}", others.join(", "));
        return true;
    }
    let is_wrong = rows.iter().any(|row| row.verdict() != Verdict::Within);
    if is_wrong {
        println!(
            "Where more instructions are the price of something that is worth it, or where there are fewer now, or other paths: \
             `cargo xtask instructions --update`, and say why in the commit."
        );
    }
    !is_wrong
}

/// Builds the program as users build, and returns its path.
fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--locked", "--release", "--package", "esker", "--bench", PROGRAM])
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let output = child.stdout.take().ok_or("cargo has no output")?;
    let mut program = None;
    for message in Message::parse_stream(BufReader::new(output)) {
        let message = message.map_err(|error| format!("cannot read what cargo says: {error}"))?;
        if let Message::CompilerArtifact(artifact) = message
            && artifact.target.name == PROGRAM
        {
            program = artifact.executable;
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    match program {
        Some(program) if status.success() => Ok(program.into()),
        _ => Err(format!("{PROGRAM} cannot be built: {status}")),
    }
}

/// The versions that the counts depend on.
fn toolchain(valgrind: String) -> Vec<(String, String)> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let unknown = || "unknown".to_owned();
    let all = [
        ("rustc", first_line(&rustc, &["--version"]).unwrap_or_else(unknown)),
        ("c_library", first_line("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_else(unknown)),
        ("valgrind", valgrind),
        ("processor", processor()),
    ];
    all.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The instruction set, as far as code is selected by it; valgrind knows none beyond AVX2.
fn processor() -> String {
    #[cfg(target_arch = "x86_64")]
    let more = if std::arch::is_x86_feature_detected!("avx2") { " with AVX2" } else { " without AVX2" };
    #[cfg(not(target_arch = "x86_64"))]
    let more = "";
    format!("{}{more}", std::env::consts::ARCH)
}

/// The first line of a program's output; `None` if there is no such program.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}
