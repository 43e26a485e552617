//! Finds forbidden words: notes to oneself, switched-off tests, second versions beside the first, paths of
//! one machine. They are split below, so that the list does not find itself.

use super::is_prose_or_code;
use crate::findings::Findings;
use crate::repository::{Repository, is_generated};
use proc_macro2::{TokenStream, TokenTree};
use std::path::Path;

/// Whole words, with what to do instead.
const WORDS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "do it, or write down in the documentation what is missing"),
    (concat!("FIX", "ME"), "mend it"),
    (concat!("XX", "X"), "say what is meant"),
    (concat!("HA", "CK"), "say why it must be so, or do it properly"),
    (concat!("W", "IP"), "finish it"),
];

/// Pieces of text, with what to do instead.
const PIECES: &[(&str, &str)] = &[
    (concat!("to", "do!("), "do it"),
    (concat!("unimple", "mented!("), "return an error, or do it"),
    (concat!("db", "g!("), "take it out"),
    (concat!("#[ign", "ore"), "a test that does not run proves nothing: make it fast, or delete it"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (concat!("crates", ".io"), "name the crate, not the place it is downloaded from"),
    (concat!("language ", "model"), "speak of the project"),
    (concat!("sub", "agent"), "speak of the project"),
    (concat!("this ses", "sion"), "speak of the project"),
];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for path in repository.files.iter().filter(|path| is_prose_or_code(path)) {
        match repository.text(path) {
            Some(text) => check_text(path, &text, findings),
            None => findings.error(path, 0, "is not UTF-8"),
        }
    }
}

fn check_text(path: &Path, text: &str, findings: &mut Findings) {
    if is_generated(text) {
        return;
    }
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    if is_rust {
        check_names(path, text, findings);
    }
    for (number, line) in (1..).zip(text.lines()) {
        if line.ends_with([' ', '\t', '\r']) {
            findings.error(path, number, "white space at the end of the line");
        }
        for (piece, advice) in PIECES {
            if line.contains(piece) {
                findings.error(path, number, format!("`{piece}`: {advice}"));
            }
        }
        for word in line.split(|char: char| !char.is_ascii_alphanumeric() && char != '_') {
            if let Some((_, advice)) = WORDS.iter().find(|(banned, _)| *banned == word) {
                findings.error(path, number, format!("`{word}`: {advice}"));
            }
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.error(path, text.lines().count(), "end the last line");
    }
}

/// Names of files and of things in them.
fn check_names(path: &Path, text: &str, findings: &mut Findings) {
    let advice = "a second version beside the first: replace the first";
    if path.file_stem().is_some_and(|stem| is_second_version(&stem.to_string_lossy())) {
        findings.error(path, 0, advice);
    }
    let mut streams: Vec<TokenStream> = text.parse().ok().into_iter().collect();
    while let Some(stream) = streams.pop() {
        for token in stream {
            match token {
                TokenTree::Group(group) => streams.push(group.stream()),
                TokenTree::Ident(ident) if is_second_version(&ident.to_string()) => {
                    findings.error(path, ident.span().start().line, format!("`{ident}`: {advice}"));
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

/// `reader_v2`, `ReaderV2`, `v2`. `v4` and `v6` are versions of IP.
fn is_second_version(word: &str) -> bool {
    let Some(stem) = word.strip_suffix(['2', '3', '5', '7', '8', '9']) else { return false };
    let Some(before) = stem.strip_suffix(['v', 'V']) else { return false };
    match stem.ends_with('v') {
        true => before.is_empty() || before.ends_with('_'),
        false => before.ends_with(|char: char| char.is_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let mut findings = Findings::default();
        check_text(Path::new(path), text, &mut findings);
        findings.texts().len()
    }

    #[test]
    fn leftovers_are_found() {
        assert_eq!(found("a.rs", concat!("// TO", "DO: more\n")), 1);
        assert_eq!(found("a.rs", concat!("db", "g!(x);\n")), 1);
        assert_eq!(found("a.md", concat!("see /ho", "me/me/x\n")), 1);
        assert_eq!(found("a.md", "trailing \n"), 1);
        assert_eq!(found("a.md", "no end"), 1);
        assert_eq!(found("a.rs", "mastodon and prototype\n"), 0);
    }

    #[test]
    fn second_versions_are_found() {
        for second in ["block_v2", "BlockV2", "v2", "level_iter_v3"] {
            assert!(is_second_version(second), "{second}");
        }
        for first in ["block", "block_v1", "resp2", "V2", "avx2", "xv2", "u8", ""] {
            assert!(!is_second_version(first), "{first}");
        }
        assert_eq!(found("src/block_v2.rs", "\n"), 1);
        assert_eq!(found("a.rs", "fn f(reader_v2: ReaderV2) {}\n"), 2);
        assert_eq!(found("a.rs", "// reader_v2 in a comment and \"v2\" in a string\n"), 0);
    }
}
