//! Checks links between files of the repository, names of documents in comments, and names of files in
//! documents.

use super::is_prose_or_code;
use crate::findings::Findings;
use crate::repository::Repository;
use std::path::{Component, Path, PathBuf};

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for path in repository.files.iter().filter(|path| is_prose_or_code(path)) {
        let Some(text) = repository.text(path) else { continue };
        if path.extension().is_some_and(|extension| extension == "md") {
            markdown_links(repository, path, &text, findings);
            for (number, name) in code_files(&text) {
                if !repository.root.join(name).exists() {
                    findings.error(path, number, format!("there is no file {name}"));
                }
            }
        }
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        for (number, name) in document_names(&text, is_rust) {
            if !document_exists(repository, path, name) {
                findings.error(path, number, format!("there is no document {name}"));
            }
        }
    }
}

/// A document may be named by its path in the repository, relative to the file, or by a unique file name.
fn document_exists(repository: &Repository, from: &Path, name: &str) -> bool {
    let beside = from.parent().unwrap_or(Path::new("")).join(name);
    let places = [PathBuf::from(name), normalize(&beside)];
    repository.files.iter().any(|path| places.contains(path) || (!name.contains('/') && path.ends_with(name)))
}

/// Names of documents, such as `docs/format/table` with its ending. Of code, the comments are searched.
fn document_names(text: &str, is_rust: bool) -> impl Iterator<Item = (usize, &str)> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || "_-./".contains(char);
    (1..).zip(text.lines()).flat_map(move |(number, line)| {
        let line = if is_rust { line.split_once("//").map_or("", |(_, comment)| comment) } else { line };
        let words = line.split(move |char: char| !is_name(char));
        words
            .map(|word| word.trim_end_matches('.'))
            .filter(|word| is_document_name(word))
            .map(move |word| (number, word))
    })
}

fn is_document_name(word: &str) -> bool {
    word.strip_suffix(".md").is_some_and(|stem| {
        let name = stem.rsplit('/').next().unwrap_or_default();
        !name.is_empty()
            && name.starts_with(|char: char| char.is_ascii_alphanumeric())
            && !stem.contains("//")
    })
}

/// Source files that a document names by their path in the repository: `` `xtask/src/main.rs` ``.
fn code_files(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_place = |name: &&str| {
        let beginnings = ["crates/", "docs/", "examples/", "fuzz/", "xtask/"];
        beginnings.iter().any(|beginning| name.starts_with(beginning))
            && !name.contains([' ', '*', '<'])
            && !name.contains("NAME")
    };
    prose_lines(text).flat_map(move |(number, line)| {
        line.split('`').skip(1).step_by(2).filter(is_place).map(move |name| (number, name))
    })
}

fn markdown_links(repository: &Repository, path: &Path, text: &str, findings: &mut Findings) {
    for (number, target) in link_targets(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = match file {
            "" => path.to_owned(),
            file => normalize(&path.parent().unwrap_or(Path::new("")).join(file)),
        };
        if !repository.root.join(&file).exists() {
            findings.error(path, number, format!("the link to {target} leads nowhere"));
            continue;
        }
        if anchor.is_empty() || file.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = repository.text(&file).unwrap_or_default();
        if !headings(&text).any(|heading| heading == anchor) {
            findings.error(path, number, format!("{} has no heading for #{anchor}", file.display()));
        }
    }
}

/// Lines outside of fenced code, with their numbers.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

/// Text and target of each `[text](target)`.
pub(super) fn named_links(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    prose_lines(text).flat_map(|(number, line)| {
        line.match_indices("](").filter_map(move |(at, _)| {
            let begins = line[..at].rfind('[')? + 1;
            Some((number, &line[begins..at], line[at + 2..].split_once(')')?.0))
        })
    })
}

/// The targets of `[text](target)`.
fn link_targets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose_lines(text).flat_map(|(number, line)| {
        line.split("](").skip(1).filter_map(move |rest| Some((number, rest.split_once(')')?.0)))
    })
}

/// The anchors of a document's headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose_lines(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        kept.map(|char| if char == ' ' { '-' } else { char }).collect()
    })
}

/// Resolves `.` and `..` in a path.
fn normalize(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_links_are_found_outside_of_code() {
        let text = "a [b](c.md) and [d](e/f#g)\n```\n[not](this)\n```\n[h](i)";
        let found: Vec<_> = link_targets(text).collect();
        assert_eq!(found, [(1, "c.md"), (1, "e/f#g"), (5, "i")]);
    }

    #[test]
    fn places_in_code_marks_are_found() {
        let found: Vec<_> =
            code_files("see `xtask/src/main.rs`, `cargo run` and docs/x\n`docs/format`").collect();
        assert_eq!(found, [(1, "xtask/src/main.rs"), (2, "docs/format")]);
    }

    #[test]
    fn headings_are_named_as_links_name_them() {
        let found: Vec<_> =
            headings("# What it is\n## Life of a `write`, in short\n```\n# no\n```").collect();
        assert_eq!(found, ["what-it-is", "life-of-a-write-in-short"]);
    }

    #[test]
    fn names_of_documents_are_found() {
        let ending = ".md";
        let text =
            format!("// see `docs/format/wal{ending}`, or README{ending}.\n// *{ending} and .md are none");
        let found: Vec<_> =
            document_names(&text, true).map(|(number, name)| format!("{number} {name}")).collect();
        assert_eq!(found, [format!("1 docs/format/wal{ending}"), format!("1 README{ending}")]);
    }

    #[test]
    fn dots_leave_paths() {
        assert_eq!(normalize(Path::new("docs/../a/./b")), Path::new("a/b"));
    }
}
