//! Checks that the tests exist that `docs/survival.md` names as proofs.
//!
//! A link to a source file there has the name of a test as its text; a test that is renamed or removed takes
//! its cells along.

use super::links::named_links;
use crate::findings::Findings;
use crate::repository::Repository;
use std::path::{Path, PathBuf};

const MATRIX: &str = "docs/survival.md";

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    let path = Path::new(MATRIX);
    let Some(text) = repository.text(path) else {
        findings.error(path, 0, "there is no survival matrix".to_owned());
        return;
    };
    for (number, test, target) in named_links(&text) {
        let Some(file) = target.strip_prefix("../").filter(|file| file.ends_with(".rs")) else { continue };
        let code = repository.text(&PathBuf::from(file)).unwrap_or_default();
        if !has_test(&code, test) {
            findings.error(path, number, format!("{file} has no test {test}"));
        }
    }
}

/// Whether code has a test of this name.
fn has_test(code: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let mut is_marked = false;
    code.lines().map(str::trim).any(|line| {
        let is_there = is_marked && line.starts_with(&head);
        is_marked = line == "#[test]" || (is_marked && line.starts_with("#["));
        is_there
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_a_function_with_its_mark() {
        let code = "#[test]\n#[cfg(unix)]\nfn kept() {}\nfn helper() {}\n";
        assert!(has_test(code, "kept"));
        assert!(!has_test(code, "helper") && !has_test(code, "gone"));
    }
}
