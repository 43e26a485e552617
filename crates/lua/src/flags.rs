//! Flags of scripts and functions: what they promise not to do, and what they may do.

/// A set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

/// In the order in which they are listed.
const NAMES: [(Flags, &str); 5] = [
    (Flags::NO_WRITES, "no-writes"),
    (Flags::ALLOW_OOM, "allow-oom"),
    (Flags::ALLOW_STALE, "allow-stale"),
    (Flags::NO_CLUSTER, "no-cluster"),
    (Flags::ALLOW_CROSS_SLOT_KEYS, "allow-cross-slot-keys"),
];

impl Flags {
    /// It calls no command that writes.
    pub const NO_WRITES: Self = Self(1);
    /// It may run when memory is short.
    pub const ALLOW_OOM: Self = Self(2);
    /// It may run on a replica that is not up to date.
    pub const ALLOW_STALE: Self = Self(4);
    /// It does not run in a cluster.
    pub const NO_CLUSTER: Self = Self(8);
    /// Its keys may lie in different slots of a cluster.
    pub const ALLOW_CROSS_SLOT_KEYS: Self = Self(16);

    /// Whether all of `flags` are set.
    #[must_use]
    pub fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The set with `flags` as well.
    #[must_use]
    pub fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }

    /// The flag with this name; letters count as they are.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        NAMES.into_iter().find(|(_, known)| known.as_bytes() == name).map(|(flag, _)| flag)
    }

    /// The same, whatever the case of letters.
    pub(crate) fn named_in_any_case(name: &[u8]) -> Option<Self> {
        NAMES.into_iter().find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name)).map(|(flag, _)| flag)
    }
}
