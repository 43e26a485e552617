//! The manifest and the state that it stands for.

use esker_base::FileNumber;
use esker_version::{DatabaseState, FileKind, Manifest};

/// A file that an edit names.
pub(crate) type DataFile = (FileKind, FileNumber);

/// The state guarded by the manifest's lock.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) manifest: Manifest,
    /// The sum of all durable edits.
    pub(crate) state: DatabaseState,
    /// Tables of edits whose append may or may not have happened, until a new manifest is current that
    /// certainly lacks them.
    pub(crate) doubtful: Vec<DataFile>,
}

impl Installed {
    pub(crate) fn new(manifest: Manifest, state: DatabaseState) -> Installed {
        Installed { manifest, state, doubtful: Vec::new() }
    }
}
