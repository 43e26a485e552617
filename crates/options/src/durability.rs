//! Durability levels of acknowledged writes.

/// What an acknowledged write survives. Chosen per write; the default is [`Durability::Process`].
///
/// | event | `None` | `Process` | `Power` |
/// |---|---|---|---|
/// | the process is killed | kept up to the last flush of the keyspace at least | kept | kept |
/// | power is cut | the same | a prefix is kept, up to the last flush or sync at least | kept |
///
/// At every level a batch survives whole or not at all. Of the writes at `Process` and `Power` a prefix of
/// the order in which they were acknowledged survives: there is no hole (RC5). Of a keyspace's writes at
/// `None` a prefix survives as well, but a later write at another level may survive an earlier one at `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "PersistMode")]
#[doc(alias = "disableWAL")]
#[doc(alias = "sync")]
pub enum Durability {
    /// The write is in memory alone when the call returns: nothing is written to the log. For data that can
    /// be made again. A crash loses what no flush has put into a table; `flush`, `sync` and `close` of the
    /// database, checkpoints, backups and the creation of a consumer of changes put it there.
    ///
    /// A batch over several keyspaces is logged all the same, or a crash could tear it; so is every write
    /// while something reads the change stream, and a batch of more than a log segment. A reader of the
    /// change stream that wants to begin before unlogged writes is told that the history is gone.
    None,
    /// The write is in the page cache before the call returns, so it survives the death of the process.
    #[default]
    Process,
    /// The write is on the device before the call returns. Concurrent writers share one flush.
    Power,
}

impl Durability {
    /// The name used in options and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Process => "process",
            Durability::Power => "power",
        }
    }

    /// The level with this name.
    pub fn parse(name: &str) -> Option<Durability> {
        [Durability::None, Durability::Process, Durability::Power]
            .into_iter()
            .find(|level| level.name() == name)
    }
}
