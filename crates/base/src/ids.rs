//! Id types: one type for each kind of number, so that they cannot be confused.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number itself.
            #[inline]
            pub const fn get(self) -> $inner {
                self.0
            }

            /// The greatest number that decoders accept from a file or a name: half of all, so that counting
            /// on from it does not overflow.
            pub const MAX_STORED: $name = $name(<$inner>::MAX / 2);

            /// The number, if it may be stored ([`Self::MAX_STORED`]).
            #[inline]
            pub const fn stored(number: $inner) -> Option<$name> {
                if number <= Self::MAX_STORED.0 { Some($name(number)) } else { None }
            }

            /// The next number of this kind.
            #[inline]
            pub const fn next(self) -> $name {
                $name(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A keyspace of a database; never reused, not even after a drop (WL5). 0 is the keyspace "default".
    KeyspaceId(u32)
}
id! {
    /// A file of a database; one counter for tables, manifests and blobs, never reused (RC3).
    FileNumber(u64)
}
id! {
    /// One life of a log segment; assigned at rotation, never reused (WL1).
    LogId(u64)
}
id! {
    /// A sorted run of tables inside one keyspace.
    RunId(u64)
}
id! {
    /// A part of a tree: a key range of one table file. Several parts may share a file.
    PartId(u64)
}
id! {
    /// Random identity written into a table file and into the manifest, so that a swapped file is detected.
    TableUid(u64)
}
