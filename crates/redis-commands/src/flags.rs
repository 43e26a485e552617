//! Sets of flags as bits: of commands, of ACL categories, of how a command uses a key.

/// Declares a set of bits whose members have the names that Redis prints, in the order of its replies.
macro_rules! flag_set {
    ($(#[$doc:meta])* $set:ident: $bits:ty { $($(#[$member_doc:meta])* $member:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $set($bits);

        impl $set {
            /// No member.
            pub const NONE: Self = Self(0);
            flag_set!(@members $bits, 0; $($(#[$member_doc])* $member,)*);

            /// All members with the names that Redis prints, in the order in which it prints them.
            pub const NAMES: &'static [(&'static str, Self)] = &[$(($name, Self::$member),)*];

            /// Whether all members of `other` are in the set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether the sets have a member in common.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The members of both.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The member of a name; letters of either case.
            pub fn named(name: &[u8]) -> Option<Self> {
                let row = Self::NAMES.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))?;
                Some(row.1)
            }

            /// The names of the members, in the order in which Redis prints them.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().filter(move |(_, member)| self.contains(*member)).map(|(name, _)| *name)
            }
        }
    };
    (@members $bits:ty, $at:expr; $(#[$doc:meta])* $member:ident, $($rest:tt)*) => {
        $(#[$doc])*
        pub const $member: Self = Self(1 << ($at));
        flag_set!(@members $bits, $at + 1; $($rest)*);
    };
    (@members $bits:ty, $at:expr;) => {};
}

flag_set! {
    /// What a command does and where it may run.
    CommandFlags: u32 {
        /// Changes data.
        WRITE = "write",
        /// Reads data.
        READONLY = "readonly",
        /// Refused when memory is full.
        DENYOOM = "denyoom",
        /// Administers the server.
        ADMIN = "admin",
        /// Publishes or subscribes.
        PUBSUB = "pubsub",
        /// Not from scripts.
        NOSCRIPT = "noscript",
        /// May wait for data.
        BLOCKING = "blocking",
        /// Allowed while data are loaded.
        LOADING = "loading",
        /// Allowed on a replica with stale data.
        STALE = "stale",
        /// Hidden from MONITOR.
        SKIP_MONITOR = "skip_monitor",
        /// Hidden from the log of slow commands.
        SKIP_SLOWLOG = "skip_slowlog",
        /// Allowed on a hash slot that is being imported.
        ASKING = "asking",
        /// Takes constant or logarithmic time.
        FAST = "fast",
        /// Allowed before authentication.
        NO_AUTH = "no_auth",
        /// May have no keys although it has key specifications.
        NO_MANDATORY_KEYS = "no_mandatory_keys",
        /// Refused while a replica loads in the background.
        NO_ASYNC_LOADING = "no_async_loading",
        /// Not in a transaction.
        NO_MULTI = "no_multi",
        /// Its keys are more than the range of [`Command::key_range`](crate::Command::key_range).
        MOVABLEKEYS = "movablekeys",
        /// Allowed while a script runs too long.
        ALLOW_BUSY = "allow_busy",
    }
}

flag_set! {
    /// Categories of the ACL, written with `@` in rules.
    Categories: u32 {
        /// Keys of any type.
        KEYSPACE = "keyspace",
        /// Reads data.
        READ = "read",
        /// Changes data.
        WRITE = "write",
        /// Sets.
        SET = "set",
        /// Sorted sets.
        SORTEDSET = "sortedset",
        /// Lists.
        LIST = "list",
        /// Hashes.
        HASH = "hash",
        /// Strings.
        STRING = "string",
        /// Bits of strings.
        BITMAP = "bitmap",
        /// HyperLogLogs.
        HYPERLOGLOG = "hyperloglog",
        /// Positions on the earth.
        GEO = "geo",
        /// Streams.
        STREAM = "stream",
        /// Channels.
        PUBSUB = "pubsub",
        /// Administration.
        ADMIN = "admin",
        /// Constant or logarithmic time.
        FAST = "fast",
        /// Everything that is not fast.
        SLOW = "slow",
        /// May wait.
        BLOCKING = "blocking",
        /// Can harm the server or its users.
        DANGEROUS = "dangerous",
        /// The connection itself.
        CONNECTION = "connection",
        /// Transactions.
        TRANSACTION = "transaction",
        /// Scripts and functions.
        SCRIPTING = "scripting",
    }
}

flag_set! {
    /// How a command uses a key.
    KeyFlags: u16 {
        /// Reads the value, or that there is one.
        RO = "RO",
        /// Changes the value by what it was.
        RW = "RW",
        /// Replaces the value.
        OW = "OW",
        /// Removes the key.
        RM = "RM",
        /// Data of the value reach the client or another key.
        ACCESS = "access",
        /// Data of the value change.
        UPDATE = "update",
        /// Data are added and none are changed.
        INSERT = "insert",
        /// Data are removed.
        DELETE = "delete",
        /// Looks like a key, for routing in a cluster, and is none.
        NOT_KEY = "not_key",
        /// There may be keys that the specification does not find.
        INCOMPLETE = "incomplete",
        /// Other arguments change these flags.
        VARIABLE_FLAGS = "variable_flags",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_bits_of_their_own_and_are_found_by_name() {
        for (at, (name, member)) in Categories::NAMES.iter().enumerate() {
            assert_eq!(member.0, 1 << at, "{name}");
            assert_eq!(Categories::named(name.to_uppercase().as_bytes()), Some(*member));
        }
        assert_eq!(Categories::named(b"all"), None);
        let both = KeyFlags::RW.with(KeyFlags::ACCESS);
        assert_eq!(both.names().collect::<Vec<_>>(), ["RW", "access"]);
        assert!(both.intersects(KeyFlags::RW) && !both.contains(KeyFlags::RW.with(KeyFlags::RO)));
    }
}
