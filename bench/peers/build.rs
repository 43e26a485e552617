//! Passes the measured commit to the program; for the feature `wiredtiger`, generates the bindings of its
//! header and finds its library.

use std::process::Command;

fn main() {
    // The reflog of HEAD grows with each commit and each change of branch; in a worktree it is elsewhere.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    println!("cargo:rerun-if-changed=../../crates");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rustc-env=PEERS_COMMIT={}", commit());
    #[cfg(feature = "wiredtiger")]
    wiredtiger::link();
}

/// Output of git; `None` without it.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The commit of the repository, with a mark if files differ from it; empty without git.
fn commit() -> String {
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "commit unknown".to_owned());
    match git(&["status", "--porcelain", "--", "../../crates", "."]) {
        Some(changes) if !changes.is_empty() => format!("{commit}, changed"),
        _ => commit,
    }
}

#[cfg(feature = "wiredtiger")]
mod wiredtiger {
    use std::path::PathBuf;

    pub(super) fn link() {
        println!("cargo:rerun-if-env-changed=WIREDTIGER_DIR");
        let directory = std::env::var("WIREDTIGER_DIR")
            .expect("WIREDTIGER_DIR must name the build directory of WiredTiger: see README.md");
        println!("cargo:rustc-link-search=native={directory}");
        println!("cargo:rustc-link-lib=static=wiredtiger");
        println!("cargo:rustc-link-lib=dylib=lz4");
        let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
        bindgen::Builder::default()
            .header(format!("{directory}/include/wiredtiger.h"))
            .allowlist_type("__wt_(connection|session|cursor|item|event_handler)")
            .allowlist_function("wiredtiger_(open|strerror|version)")
            .allowlist_var("WT_NOTFOUND|WT_ROLLBACK")
            .layout_tests(false)
            .generate()
            .expect("bindings of wiredtiger.h")
            .write_to_file(out.join("wiredtiger.rs"))
            .expect("cargo's directory can be written to");
    }
}
