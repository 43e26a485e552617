//! Tells which commit is measured.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../crates");
    println!("cargo:rustc-env=PEERS_COMMIT={}", commit());
}

/// The commit of the repository, with a mark if files differ from it; empty words without git.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "commit unknown".to_owned());
    match git(&["status", "--porcelain", "--", "../../crates"]) {
        Some(changes) if !changes.is_empty() => format!("{commit}, changed"),
        _ => commit,
    }
}
