//! Comparison of a database with a copy: the same tables and blob files must have the same bytes.

use super::file_pool::FilePool;
use super::survey::{DataFile, Survey, uid_of};
use esker_base::{FileNumber, Result, TableUid};
use esker_env::Env;
use esker_version::FileKind;
use std::path::{Path, PathBuf};

/// How the files of a database compare with those of a copy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Comparison {
    /// Files with the same bytes in both.
    pub same: u64,
    /// Files of one identity that differ: one of the two is damaged.
    pub differing: Vec<Difference>,
    /// Files that the database refers to and has lost, while the copy has them.
    pub only_in_copy: Vec<PathBuf>,
    /// Files that the copy does not have: newer than it, or never part of it.
    pub only_here: Vec<PathBuf>,
}

/// A file that differs from its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The file.
    pub file: PathBuf,
    /// The copy.
    pub copy: PathBuf,
    /// The first byte that differs.
    pub offset: u64,
}

/// Compares every live file, or without a manifest every file, with the file of the same identity.
pub(crate) fn compare(survey: &Survey, env: &Env, against: &Path) -> Result<Comparison> {
    let pool = FilePool::of(env, against)?;
    let mut comparison = Comparison::default();
    for (path, kind, uid, is_there) in wanted(survey) {
        let copy = uid.and_then(|uid| pool.find(kind, uid));
        match (copy, is_there) {
            (Some(copy), true) => match pool.first_difference(&survey.env, &path, copy)? {
                None => comparison.same += 1,
                Some(offset) => {
                    let copy = copy.to_path_buf();
                    comparison.differing.push(Difference { file: path, copy, offset });
                }
            },
            (Some(_), false) => comparison.only_in_copy.push(path),
            (None, true) => comparison.only_here.push(path),
            (None, false) => {}
        }
    }
    Ok(comparison)
}

/// The files to compare: path, kind, identity, and whether the file is there.
fn wanted(survey: &Survey) -> Vec<(PathBuf, FileKind, Option<TableUid>, bool)> {
    if let Some(state) = survey.state() {
        let live = state.live_files().into_iter().map(|(number, live): (FileNumber, _)| {
            let path = esker_view::paths::data(&survey.dir, live.kind, number);
            (path, live.kind, Some(live.table_uid), survey.file(live.kind, number).is_some())
        });
        return live.collect();
    }
    let all = survey
        .data
        .values()
        .map(|DataFile { kind, path, .. }| (path.clone(), *kind, uid_of(&survey.env, *kind, path), true));
    all.collect()
}
