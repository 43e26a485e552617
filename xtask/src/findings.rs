//! Findings of the checks.

use std::fmt;
use std::path::{Path, PathBuf};

/// Findings of one check, printed in the order of files and lines.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    all: Vec<Finding>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: PathBuf,
    /// Counted from one; zero if the finding is about the whole file.
    line: usize,
    is_error: bool,
    text: String,
}

impl Findings {
    /// Reports an error, which fails the check.
    pub(crate) fn error(&mut self, path: &Path, line: usize, text: impl Into<String>) {
        self.all.push(Finding { path: path.to_owned(), line, is_error: true, text: text.into() });
    }

    /// Reports a warning, which does not.
    pub(crate) fn warning(&mut self, path: &Path, line: usize, text: impl Into<String>) {
        self.all.push(Finding { path: path.to_owned(), line, is_error: false, text: text.into() });
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.all.iter().any(|finding| finding.is_error)
    }

    /// One line for the end of the output.
    pub(crate) fn summary(&self) -> String {
        let errors = self.all.iter().filter(|finding| finding.is_error).count();
        match (errors, self.all.len() - errors) {
            (0, 0) => "all is well".to_owned(),
            (errors, warnings) => format!("{errors} error(s), {warnings} warning(s)"),
        }
    }

    /// The texts alone, for tests.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.all.iter().map(|finding| finding.text.as_str()).collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&Finding> = self.all.iter().collect();
        sorted.sort();
        for finding in sorted {
            let kind = if finding.is_error { "error" } else { "warning" };
            write!(f, "{kind}: {}", finding.path.display())?;
            if finding.line > 0 {
                write!(f, ":{}", finding.line)?;
            }
            writeln!(f, ": {}", finding.text)?;
        }
        Ok(())
    }
}
