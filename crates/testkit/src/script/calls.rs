//! Ways of copying a database, changes of its path, and calls whose callbacks panic.

/// A way of copying a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMethod {
    /// A checkpoint, which is opened.
    Checkpoint,
    /// A backup beside the earlier ones.
    Backup,
    /// One of the backups is restored, by a number taken modulo their count.
    Restore(u8),
    /// All keyspaces are exported, and imported into an empty database.
    Export,
}

/// A change of what the path of an open database means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// The directory is renamed, and gets its name back.
    RenameAndBack,
    /// The directory is renamed and keeps its new name.
    Rename,
    /// The database is opened through a symbolic link, which then leads to another directory.
    Link,
    /// The database is opened by a relative path, and then the working directory changes.
    WorkingDirectory,
}

impl PathChange {
    /// Every change.
    pub const ALL: [PathChange; 4] =
        [PathChange::RenameAndBack, PathChange::Rename, PathChange::Link, PathChange::WorkingDirectory];
}

/// A call with a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `fetch_update`.
    Update,
    /// `get_with`.
    Read,
    /// `update_options`.
    Options,
    /// `transact`.
    Transaction,
    /// A bulk load whose owner unwinds.
    BulkLoad,
    /// The progress of an export.
    Export,
    /// The progress of a checkpoint.
    Checkpoint,
    /// A destructor that writes while a panic unwinds.
    Destructor,
}

impl Call {
    /// Every call.
    pub const ALL: [Call; 8] = [
        Call::Update,
        Call::Read,
        Call::Options,
        Call::Transaction,
        Call::BulkLoad,
        Call::Export,
        Call::Checkpoint,
        Call::Destructor,
    ];
}
