//! `tidy`: checks of style.
//!
//! One idea a file and one screen a function ([`sizes`]), no tuples in parameters ([`tuple_parameters`]), no
//! file that no target compiles ([`dead_files`]), no leftovers ([`words`]), comments as wide as code and
//! plain ([`comments`]), one type a name ([`type_names`]), one definition an invariant ([`invariants`]), no
//! link or file name in prose that leads nowhere ([`links`]), no proof of survival that is no test
//! ([`proofs`]), no large files. What a program wrote, and says so in its first line, is not read.

mod comments;
mod dead_files;
mod exemptions;
mod invariants;
mod links;
mod proofs;
mod sizes;
mod tuple_parameters;
mod type_names;
mod words;

use crate::findings::Findings;
use crate::repository::{Repository, Source};
use std::path::{Path, PathBuf};

/// Bytes of the largest file except data sets.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Bytes of the largest data set.
const MAX_DATA_SET_BYTES: u64 = 10 << 20;
/// Where data sets are.
const DATA_SETS: &str = "examples/data";

pub(crate) fn check(repository: &Repository, findings: &mut Findings) {
    for (path, reason) in &repository.unreadable {
        findings.error(path, 0, format!("cannot be read as Rust: {reason}"));
    }
    large_files(repository, findings);
    crate_essays(repository, findings);
    dead_files::check(repository, findings);
    sizes::check(repository, findings);
    tuple_parameters::check(repository, findings);
    words::check(repository, findings);
    comments::check(repository, findings);
    type_names::check(repository, findings);
    invariants::check(repository, findings);
    links::check(repository, findings);
    proofs::check(repository, findings);
}

/// Whether a file is text that people write.
fn is_prose_or_code(path: &Path) -> bool {
    if path.starts_with(DATA_SETS) && path.extension().is_some_and(|extension| extension != "md") {
        return false;
    }
    let known = ["rs", "md", "toml", "sh", "yml", "yaml", "proto", "py", "txt"];
    let extension = path.extension().and_then(|extension| extension.to_str());
    path.starts_with(".ci") || extension.is_some_and(|extension| known.contains(&extension))
}

/// The sources that people write.
fn written(repository: &Repository) -> impl Iterator<Item = (&PathBuf, &Source)> {
    repository.sources.iter().filter(|(_, source)| !source.is_generated())
}

fn large_files(repository: &Repository, findings: &mut Findings) {
    for path in &repository.files {
        let bytes = repository.len_bytes(path);
        let limit = if path.starts_with(DATA_SETS) { MAX_DATA_SET_BYTES } else { MAX_FILE_BYTES };
        if bytes > limit {
            let text = format!(
                "{bytes} bytes, {limit} are allowed: make it when it is needed instead of keeping it"
            );
            findings.error(path, 0, text);
        }
    }
}

/// Checks that the root file of a library begins with an essay: what it is, what holds in it, a map.
fn crate_essays(repository: &Repository, findings: &mut Findings) {
    for (path, source) in &repository.sources {
        if path.ends_with("src/lib.rs") && !source.text.starts_with("//!") {
            findings.error(
                path,
                0,
                "begin with `//!`: what the crate is, its invariants, a map of its files",
            );
        }
    }
}
