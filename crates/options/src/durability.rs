//! Durability levels of acknowledged writes.

/// What an acknowledged write survives. Chosen per write; the default is [`Durability::Process`].
///
/// | event | `None` | `Process` | `Power` |
/// |---|---|---|---|
/// | the process is killed | kept | kept | kept |
/// | power is cut | a prefix is kept, up to the last flush or sync at least | the same | kept |
///
/// At every level, a batch survives whole or not at all, and the surviving writes are a prefix of the order
/// in which writes were acknowledged: there is no hole (RC5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "PersistMode")]
#[doc(alias = "disableWAL")]
#[doc(alias = "sync")]
pub enum Durability {
    /// No guarantee beyond the last flush. Treated like [`Durability::Process`], because copying into the
    /// mapped log costs less than distinguishing the two would save.
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
