//! Checks comments and documents: their width, and words for persons.
//!
//! rustfmt holds code to [`WIDTH`] columns and leaves comments alone, so their width is checked here. A line
//! that cannot be broken (a table, a link, a single long word) may be wider.
//!
//! Threads, caches and functions are not persons: a sentence that says `who` or `nobody` of them hides its
//! subject. Only `who` may stand, and only after a word for people (`users who`).

use super::is_prose_or_code;
use crate::findings::Findings;
use crate::repository::{Repository, is_generated};
use std::path::Path;

/// Columns of a line of code, as in `rustfmt.toml`, and of a comment.
const WIDTH: usize = 110;

/// Words that name an unspecified person.
const PERSON_WORDS: [&str; 15] = [
    "who",
    "whom",
    "whoever",
    "whomever",
    "somebody",
    "someone",
    "nobody",
    "anybody",
    "anyone",
    "everybody",
    "everyone",
    "somebody's",
    "someone's",
    "nobody's",
    "anyone's",
];
/// Words after which `who` is right.
const PEOPLE: [&str; 12] = [
    "people",
    "user",
    "users",
    "person",
    "persons",
    "engineer",
    "engineers",
    "operator",
    "operators",
    "developers",
    "author",
    "authors",
];
/// Documents that are the output of a command.
const GENERATED: &str = "docs/experiments/results";

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for path in repository.files.iter().filter(|path| is_prose_or_code(path)) {
        let Some(text) = repository.text(path) else { continue };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") if is_generated(&text) => {}
            Some("rs") => check_rust(path, &text, findings),
            Some("md") if !path.starts_with(GENERATED) => check_document(path, &text, findings),
            _ => {}
        }
    }
}

fn check_rust(path: &Path, text: &str, findings: &mut Findings) {
    let mut before = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = comment_of(line) else {
            before.clear();
            continue;
        };
        if line.chars().count() > WIDTH && is_breakable(comment) {
            findings.error(path, number, format!("a comment wider than {WIDTH} columns: break the line"));
        }
        check_words(path, number, comment, &mut before, findings);
    }
}

fn check_document(path: &Path, text: &str, findings: &mut Findings) {
    let mut before = String::new();
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            check_words(path, number, line, &mut before, findings);
        }
    }
}

/// The text of a line that is only a comment.
fn comment_of(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim_start())
}

/// Whether the line has a blank to break at: tables, and links after a single word, have none.
fn is_breakable(comment: &str) -> bool {
    !comment.starts_with('|') && !comment.contains("](") && comment.split(' ').count() > 2
}

/// `before` is the last word of the previous line, and is updated.
fn check_words(path: &Path, number: usize, text: &str, before: &mut String, findings: &mut Findings) {
    let is_word = |char: char| char.is_alphanumeric() || char == '\'' || char == '_';
    let prose = outside_of_code(text);
    for word in prose.split(|char: char| !is_word(char)).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        let is_named = word == "who" && PEOPLE.contains(&before.as_str());
        if PERSON_WORDS.contains(&word.as_str()) && !is_named {
            let text = format!("`{word}`: name the thread, the caller or the part that is meant");
            findings.error(path, number, text);
        }
        *before = word;
    }
}

/// The line without its code spans, which contain identifiers and file names.
fn outside_of_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let mut findings = Findings::default();
        match path.ends_with(".rs") {
            true => check_rust(Path::new(path), text, &mut findings),
            false => check_document(Path::new(path), text, &mut findings),
        }
        findings.texts().len()
    }

    #[test]
    fn wide_comments_are_found_where_they_can_be_broken() {
        let wide = format!("    /// {}\n", "word ".repeat(30).trim());
        assert_eq!(found("a.rs", &wide), 1);
        assert_eq!(found("a.rs", &format!("// {}\n", "x".repeat(150))), 0);
        assert_eq!(found("a.rs", &format!("//! | {} |\n", "cell ".repeat(30))), 0);
        assert_eq!(found("a.rs", &format!("let text = \"{}\";\n", "word ".repeat(30))), 0);
    }

    #[test]
    fn words_for_persons_are_found() {
        assert_eq!(found("a.rs", "// Nobody waits here.\n"), 1);
        assert_eq!(found("a.rs", "/// The thread who waits.\n"), 1);
        assert_eq!(found("a.md", "Whoever needs the room.\n"), 1);
        assert_eq!(found("a.rs", "let who = 1;\n"), 0);
        assert_eq!(found("a.md", "```\nwho am i\n```\n"), 0);
        assert_eq!(found("a.md", "the command `who`\n"), 0);
    }

    #[test]
    fn people_may_be_named_so() {
        assert_eq!(found("a.md", "for users who know RocksDB\n"), 0);
        assert_eq!(found("a.rs", "// for users\n// who know RocksDB\n"), 0);
        assert_eq!(found("a.rs", "// for users\nlet x = 1;\n// who know RocksDB\n"), 1);
    }
}
