//! Finds files that no target compiles.

use super::written;
use crate::findings::Findings;
use crate::repository::Repository;
use std::path::Path;

/// Endings of leftover files.
const LEFTOVERS: [&str; 6] = ["._rs", ".rs.bak", ".orig", ".rej", ".swp", "~"];
/// Beginnings of commented-out lines of code.
const SWITCHED_OFF: [&str; 8] =
    ["// mod ", "// pub mod ", "// use ", "// pub use ", "// let ", "// fn ", "// pub fn ", "// #["];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for path in &repository.files {
        let name = path.to_string_lossy();
        if LEFTOVERS.iter().any(|ending| name.ends_with(ending)) {
            findings.error(path, 0, "a leftover: delete it, version control remembers");
        }
        if path.extension().is_some_and(|extension| extension == "rs")
            && !repository.sources.contains_key(path)
            && !repository.unreadable.iter().any(|(unreadable, _)| unreadable == path)
        {
            findings.error(path, 0, "no target compiles this file: declare it with `mod` or delete it");
        }
    }
    for (path, source) in written(repository) {
        switched_off(path, &source.text, findings);
    }
}

fn switched_off(path: &Path, text: &str, findings: &mut Findings) {
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let ends_like_code = line.ends_with(';') || line.ends_with('{') || line.ends_with(']');
        if ends_like_code && SWITCHED_OFF.iter().any(|beginning| line.starts_with(beginning)) {
            findings.error(path, number, "code that is switched off: delete it, version control remembers");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_comments_is_found_and_prose_is_not() {
        let found = |text: &str| {
            let mut findings = Findings::default();
            switched_off(Path::new("a.rs"), text, &mut findings);
            findings.has_errors()
        };
        assert!(found("fn f() {\n    // let x = 1;\n}"));
        assert!(found("// mod multi_reader;"));
        assert!(!found("// let the reader decide; nothing else is safe"));
        assert!(!found("/// use it so: `use a;`"));
    }
}
