//! Runs the program under callgrind, and reads the counts.
//!
//! Callgrind counts inside one function only, and writes a file whenever that function returns; so the n-th
//! file has the n-th path, whose name and number of operations are the n-th line that the program prints.
//! Each thread is counted by itself, so a background thread does not disturb.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The function whose instructions count, as callgrind names it. In full: a pattern with stars switches the
/// counting, but writes no files.
const FUNCTION: &str = "hot_paths::instructions_are_counted";
/// Prefix of the line with the sum.
const SUM: &str = "summary: ";

/// Instructions per operation of each path.
pub(super) fn count(program: &Path) -> Result<Vec<(String, f64)>, String> {
    let directory = std::env::temp_dir().join(format!("esker-instructions-{}", std::process::id()));
    std::fs::create_dir_all(&directory)
        .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    let counted = count_in(program, &directory);
    std::fs::remove_dir_all(&directory).ok();
    counted
}

fn count_in(program: &Path, directory: &Path) -> Result<Vec<(String, f64)>, String> {
    let files = directory.join("counts");
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", files.display()))
        .arg(format!("--toggle-collect={FUNCTION}"))
        .arg(format!("--dump-after={FUNCTION}"))
        .arg(program)
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    if !output.status.success() {
        return Err(format!("valgrind: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    let mut paths = Vec::new();
    for (line, number) in String::from_utf8_lossy(&output.stdout).lines().zip(1..) {
        let path = PathBuf::from(format!("{}.{number}", files.display()));
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("callgrind wrote no counts of {line}: {}: {error}", path.display()))?;
        paths.push(an_operation(line, &text)?);
    }
    if paths.is_empty() { Err("the program ran no path".to_owned()) } else { Ok(paths) }
}

/// The name of a path and its instructions per operation, from the program's line and callgrind's file.
fn an_operation(line: &str, counts: &str) -> Result<(String, f64), String> {
    let (name, operations) =
        line.split_once(' ').ok_or_else(|| format!("not a path and its operations: {line}"))?;
    let operations: f64 =
        operations.parse().map_err(|_| format!("not a number of operations: {operations}"))?;
    let sum = counts.lines().find_map(|line| line.strip_prefix(SUM)).and_then(|sum| sum.parse::<f64>().ok());
    match sum {
        Some(sum) if sum > 0.0 && operations > 0.0 => Ok((name.to_owned(), sum / operations)),
        _ => Err(format!("callgrind counted nothing for {name}; does it know the function {FUNCTION}?")),
    }
}

#[cfg(test)]
mod tests {
    use super::an_operation;

    #[test]
    fn counts_are_divided_by_the_operations() {
        let file = "version: 1\ndesc: Trigger: --dump-after=x\nevents: Ir\nfn=(1)\n5 7\nsummary: 4000\n";
        assert_eq!(an_operation("put 20", file), Ok(("put".to_owned(), 200.0)));
    }

    #[test]
    fn a_path_that_was_not_counted_is_an_error() {
        assert!(an_operation("put 20", "summary: 0").unwrap_err().contains("put"));
        assert!(an_operation("put 20", "events: Ir").is_err());
        assert!(an_operation("put", "summary: 1").is_err());
        assert!(an_operation("put many", "summary: 1").is_err());
    }
}
