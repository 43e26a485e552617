//! Checks identifiers of invariants: each is defined once, listed in [`LIST`], and cited only if it exists.
//!
//! A comment defines one at the head of a list item (`* RV1. text`, `* RV1: text`, `* **RV1** text`) and
//! cites it elsewhere by its identifier: a prefix of one to three capitals and a number. A prefix counts as
//! one of invariants if the list has it.

use crate::findings::Findings;
use crate::repository::Repository;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The document that lists all invariants.
const LIST: &str = "docs/invariants.md";

/// Positions of identifiers.
type Places = BTreeMap<String, (PathBuf, usize)>;

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    let list = Path::new(LIST);
    let Some(text) = repository.text(list) else {
        findings.error(list, 0, "the list of invariants is missing");
        return;
    };
    let listed = listed(list, &text, findings);
    let prefixes: BTreeSet<&str> = listed.keys().map(|id| prefix_of(id)).collect();
    let (mut defined, mut cited) = (Places::new(), BTreeSet::new());
    for path in repository.files.iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        if path.starts_with("xtask") {
            continue;
        }
        let text = repository.text(path).unwrap_or_default();
        check_comments(path, &text, &listed, &prefixes, &mut defined, &mut cited, findings);
    }
    for (id, (path, line)) in &listed {
        if !cited.contains(id) {
            findings.error(path, *line, format!("no comment names {id}: state it where it is kept"));
        }
    }
}

/// The identifiers in the first column of the list's tables.
fn listed(path: &Path, text: &str, findings: &mut Findings) -> Places {
    let mut listed = Places::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(cell) = line.strip_prefix("| ").and_then(|rest| rest.split(" |").next()) else { continue };
        for id in expand(cell) {
            if let Some((_, other)) = listed.insert(id.clone(), (path.to_owned(), number)) {
                findings.error(path, number, format!("{id} stands in line {other} already"));
            }
        }
    }
    listed
}

/// `RV1`, `RV1, RV2`, `RV1-RV4` and `RV1 to RV4`.
fn expand(cell: &str) -> Vec<String> {
    let cell = cell.replace(" to ", "-");
    let mut all = Vec::new();
    for part in cell.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if !is_id(first) || !is_id(last) || prefix_of(first) != prefix_of(last) {
            continue;
        }
        let number = |id: &str| id[prefix_of(id).len()..].parse::<u32>().unwrap_or_default();
        all.extend((number(first)..=number(last)).map(|number| format!("{}{number}", prefix_of(first))));
    }
    all
}

fn check_comments(
    path: &Path,
    text: &str,
    listed: &Places,
    prefixes: &BTreeSet<&str>,
    defined: &mut Places,
    cited: &mut BTreeSet<String>,
    findings: &mut Findings,
) {
    for (number, line) in (1..).zip(text.lines()) {
        let Some((_, comment)) = line.split_once("//") else { continue };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        for id in ids_in(comment).into_iter().filter(|id| prefixes.contains(prefix_of(id))) {
            if !listed.contains_key(&id) {
                findings.error(path, number, format!("{id} is no invariant of {LIST}"));
            }
            cited.insert(id);
        }
        if let Some(id) = definition(comment).filter(|id| listed.contains_key(*id))
            && let Some((other, other_line)) = defined.insert(id.to_owned(), (path.to_owned(), number))
        {
            let place = format!("{}:{other_line}", other.display());
            findings.error(
                path,
                number,
                format!("{id} is defined in {place} already: cite it, or take another number"),
            );
        }
    }
}

/// The identifier at the head of a list item.
fn definition(comment: &str) -> Option<&str> {
    let item = comment.strip_prefix("* ").or_else(|| comment.strip_prefix("- "))?.trim_start_matches('*');
    let end = item.find(|char: char| !char.is_ascii_alphanumeric())?;
    let (id, rest) = item.split_at(end);
    (is_id(id) && rest.starts_with(['.', ':', '*'])).then_some(id)
}

/// The identifiers in a text; ranges are expanded.
fn ids_in(text: &str) -> BTreeSet<String> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let words: Vec<&str> =
        text.split(move |char: char| !is_part(char)).filter(|word| !word.is_empty()).collect();
    let mut ids: BTreeSet<String> =
        words.iter().filter(|word| is_id(word)).map(|word| (*word).to_owned()).collect();
    for three in words.windows(3) {
        if three[1] == "to" && is_id(three[0]) && is_id(three[2]) {
            ids.extend(expand(&three.join(" ")));
        }
    }
    for dashed in text.split(' ').filter(|word| word.contains('-')) {
        ids.extend(expand(dashed.trim_matches(|char: char| !char.is_ascii_alphanumeric())));
    }
    ids
}

fn is_id(word: &str) -> bool {
    let prefix = prefix_of(word);
    let number = &word[prefix.len()..];
    (1..=3).contains(&prefix.len())
        && (1..=2).contains(&number.len())
        && number.chars().all(|char| char.is_ascii_digit())
}

fn prefix_of(id: &str) -> &str {
    &id[..id.find(|char: char| !char.is_ascii_uppercase()).unwrap_or(id.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(list: &str, code: &str) -> Vec<String> {
        let mut findings = Findings::default();
        let listed = listed(Path::new(LIST), list, &mut findings);
        let prefixes = listed.keys().map(|id| prefix_of(id)).collect();
        let (mut defined, mut cited) = (Places::new(), BTreeSet::new());
        check_comments(Path::new("a.rs"), code, &listed, &prefixes, &mut defined, &mut cited, &mut findings);
        findings.texts().iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn cells_name_one_or_several() {
        assert_eq!(expand("RV1"), ["RV1"]);
        assert_eq!(expand("GP2, GP3"), ["GP2", "GP3"]);
        assert_eq!(expand("PC1 to PC3"), ["PC1", "PC2", "PC3"]);
        assert_eq!(expand("RS1-RS2"), ["RS1", "RS2"]);
        assert!(expand("what holds").is_empty());
    }

    #[test]
    fn an_identifier_is_defined_once() {
        let twice = "//! * RV1. A read.\n//! * **RV1** Another.\n";
        assert_eq!(found("| RV1 | a |\n", twice).len(), 1);
        assert!(found("| RV1 | a |\n", "//! * RV1: A read.\n// cites RV1.\n").is_empty());
        assert_eq!(found("| RV1 | a |\n| RV1 | b |\n", "").len(), 1);
    }

    #[test]
    fn cited_invariants_exist() {
        assert_eq!(found("| RV1 | a |\n", "// see RV2\n").len(), 1);
        assert_eq!(found("| RV1 | a |\n", "// see RV1-RV3\n").len(), 2);
        assert!(found("| RV1 | a |\n", "// AVX2, CS265, T1 and x86\n").is_empty());
    }
}
