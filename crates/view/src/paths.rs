//! The file names of a database directory.
//!
//! ```text
//! LOCK            locked by the process that has the database open
//! CURRENT         names the manifest
//! MANIFEST-n      the shape of the tree
//! wal/0001.seg    segments of the log
//! tables/n.sst    table files
//! tables/n.blob   blob files: large values, to which tables point
//! ```

use esker_base::FileNumber;
use esker_version::FileKind;
use std::path::{Path, PathBuf};

/// The file that a process locks while it has the database open.
pub fn lock(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

/// The directory of log segments.
pub fn wal(dir: &Path) -> PathBuf {
    dir.join("wal")
}

/// The directory of tables and blob files.
pub fn tables(dir: &Path) -> PathBuf {
    dir.join("tables")
}

/// A table.
pub fn table(dir: &Path, number: FileNumber) -> PathBuf {
    tables(dir).join(format!("{:06}.sst", number.get()))
}

/// A blob file.
pub fn blob(dir: &Path, number: FileNumber) -> PathBuf {
    tables(dir).join(format!("{:06}.blob", number.get()))
}

/// The path of a file of either kind.
pub fn data(dir: &Path, kind: FileKind, number: FileNumber) -> PathBuf {
    match kind {
        FileKind::Table => table(dir, number),
        FileKind::Blob => blob(dir, number),
    }
}

/// The kind and number of a name in the directory of the tables.
pub fn parse_data(name: &str) -> Option<(FileKind, FileNumber)> {
    let table = parse(name, ".sst").map(|number| (FileKind::Table, number));
    table.or_else(|| parse(name, ".blob").map(|number| (FileKind::Blob, number)))
}

fn parse(name: &str, suffix: &str) -> Option<FileNumber> {
    let digits = name.strip_suffix(suffix)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().and_then(FileNumber::stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for number in [0, 7, 999_999, 1_000_000, FileNumber::MAX_STORED.get()] {
            for kind in [FileKind::Table, FileKind::Blob] {
                let path = data(Path::new("d"), kind, FileNumber(number));
                let name = path.file_name().unwrap().to_str().unwrap();
                assert_eq!(parse_data(name), Some((kind, FileNumber(number))));
            }
        }
        for name in ["x.sst", ".sst", "1.tmp", ".blob", "-1.blob", "18446744073709551615.sst"] {
            assert_eq!(parse_data(name), None);
        }
    }
}
