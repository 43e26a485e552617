//! What a verification reports.

use esker_base::Error;
use std::path::PathBuf;

/// One corrupt file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Damage {
    /// The keyspace that the file belongs to.
    pub keyspace: String,
    /// The corrupt file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub error: Error,
}
