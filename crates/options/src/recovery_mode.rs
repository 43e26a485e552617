//! Recovery modes: what an open does about damaged tables and blob files.

/// What opening a database does about a table or blob file that is damaged, missing, too short or another
/// file's.
///
/// | | `Strict` | `Quarantine` |
/// |---|---|---|
/// | missing, or of another length | the open is refused | quarantined |
/// | its ends or index damaged, or another table's | the first read fails | quarantined |
/// | a block is damaged | reads of it fail | reads of it fail |
/// | a compaction meets damage | fails, is tried again | works round the file from then on |
///
/// A quarantined file stays part of the database. Reads of the keys that it may hold are errors
/// (`Quarantined`), never an older value and never silence, unless newer data decides them; everything else
/// is read and written. Checkpoints and backups, which would have to copy the file, are refused. Ways to end
/// it: replace the file from a backup or checkpoint while the database is open, delete its key range and let
/// a compaction drop the file, or drop the keyspace. A damaged manifest or log refuses to open in either
/// mode: that is for `esker repair`, which salvages what is left of a database into a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RecoveryMode {
    /// Refuse to open a database that misses data.
    #[default]
    Strict,
    /// Open it, and quarantine what is damaged.
    Quarantine,
}

impl RecoveryMode {
    /// All of them.
    pub const ALL: [RecoveryMode; 2] = [RecoveryMode::Strict, RecoveryMode::Quarantine];

    /// The name used in options and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            RecoveryMode::Strict => "strict",
            RecoveryMode::Quarantine => "quarantine",
        }
    }

    /// The mode with this name.
    pub fn parse(name: &str) -> Option<RecoveryMode> {
        RecoveryMode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
