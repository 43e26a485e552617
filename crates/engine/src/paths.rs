//! Where things lie in a database directory.
//!
//! ```text
//! LOCK            held by whoever has the database open
//! CURRENT         names the manifest
//! MANIFEST-n      the shape of the tree
//! wal/0001.seg    segments of the log
//! tables/n.sst    table files
//! ```

use esker_base::FileNumber;
use std::path::{Path, PathBuf};

pub(crate) fn lock(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

pub(crate) fn wal(dir: &Path) -> PathBuf {
    dir.join("wal")
}

pub(crate) fn tables(dir: &Path) -> PathBuf {
    dir.join("tables")
}

pub(crate) fn table(dir: &Path, number: FileNumber) -> PathBuf {
    tables(dir).join(format!("{:06}.sst", number.get()))
}

/// The number of a table file's name.
pub(crate) fn parse_table(name: &str) -> Option<FileNumber> {
    let digits = name.strip_suffix(".sst")?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(FileNumber)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_names_round_trip() {
        for number in [0, 7, 999_999, 1_000_000, u64::MAX] {
            let path = table(Path::new("d"), FileNumber(number));
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(parse_table(name), Some(FileNumber(number)));
        }
        assert_eq!(parse_table("x.sst"), None);
        assert_eq!(parse_table(".sst"), None);
        assert_eq!(parse_table("1.tmp"), None);
    }
}
