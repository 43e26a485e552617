//! The option `--durability` of `put` and `bench`.

use clap::ValueEnum;

/// What a write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// Nothing in particular
    None,
    /// The end of the process
    Process,
    /// A power cut
    Power,
}

impl From<DurabilityArg> for esker::Durability {
    fn from(level: DurabilityArg) -> esker::Durability {
        match level {
            DurabilityArg::None => esker::Durability::None,
            DurabilityArg::Process => esker::Durability::Process,
            DurabilityArg::Power => esker::Durability::Power,
        }
    }
}
