//! The manifest and the state that it stands for.

use esker_base::FileNumber;
use esker_version::{DatabaseState, FileKind, Manifest};

/// A file that an edit names.
pub type DataFile = (FileKind, FileNumber);

/// The state guarded by the manifest's lock.
#[derive(Debug)]
pub struct Installed {
    /// The file that edits are appended to.
    pub manifest: Manifest,
    /// The sum of all durable edits.
    pub state: DatabaseState,
    /// Tables of edits whose append may or may not have happened, until a new manifest is current that
    /// certainly lacks them.
    pub doubtful: Vec<DataFile>,
}

impl Installed {
    /// The manifest and the state it describes.
    pub fn new(manifest: Manifest, state: DatabaseState) -> Installed {
        Installed { manifest, state, doubtful: Vec::new() }
    }
}
