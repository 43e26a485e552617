//! Key specifications: where the keys of a command begin, and how many there are.

use crate::flags::KeyFlags;

/// An argument that is a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef {
    /// Its position among the arguments; the command's name has position 0.
    pub position: usize,
    /// How the command uses it; none if only the command's own rule found it and that does not tell.
    pub flags: KeyFlags,
}

/// One rule for finding keys among the arguments. The command's name is argument 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// How the command uses these keys.
    pub flags: KeyFlags,
    /// Where the keys begin.
    pub begin: Begin,
    /// Which arguments from there on are keys.
    pub extent: Extent,
    /// A remark for readers.
    pub note: Option<&'static str>,
}

/// The argument at which the search for keys begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The argument of this number.
    Index(i32),
    /// The argument after a word, which is searched from `from` on; if `from` is negative, counted from the
    /// end and searched backwards.
    Keyword {
        /// The word, in capitals; it matches in either case.
        word: &'static str,
        /// Where the search begins.
        from: i32,
    },
    /// The keys cannot be found by a rule.
    Unknown,
}

/// Which arguments are keys, from the beginning on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A range.
    Range {
        /// The last key, counted from the first; if negative, from the end of the arguments.
        last: i32,
        /// The distance between keys.
        step: i32,
        /// With `last` = -1: the keys are the first `1 / limit` of what follows; 0 means all of it.
        limit: i32,
    },
    /// The first argument is the number of keys, which follow it.
    Counted,
    /// The keys cannot be found by a rule.
    Unknown,
}

/// The first and last key and the distance between keys, as `COMMAND INFO` shows them; zeros without keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The number of the first argument that is a key.
    pub first: i32,
    /// The last; if negative, counted from the end of the arguments.
    pub last: i32,
    /// The distance between keys.
    pub step: i32,
}

impl KeyRange {
    /// The range that covers the specifications, and whether keys can lie outside it.
    ///
    /// Only ranges at fixed places count, and after the first only those that follow at once.
    pub(crate) fn covering(specs: &[KeySpec]) -> (Self, bool) {
        if let [KeySpec { flags, begin: Begin::Index(first), extent: Extent::Range { last, step, .. }, .. }] =
            specs
        {
            let range = Self { first: *first, last: absolute(*first, *last), step: *step };
            return (range, flags.contains(KeyFlags::INCOMPLETE));
        }
        let mut covered: Option<Self> = None;
        let mut movable = false;
        for spec in specs {
            movable |= spec.flags.contains(KeyFlags::INCOMPLETE);
            let (Begin::Index(first), Extent::Range { last, step: 1, .. }) = (spec.begin, spec.extent) else {
                movable = true;
                continue;
            };
            if covered.is_some_and(|range| range.last != first - 1) {
                movable = true;
                continue;
            }
            let last = absolute(first, last);
            covered = Some(match covered {
                None => Self { first, last, step: 1 },
                // A last key that is counted from the end is behind every other.
                Some(range) => Self { last: if last < 0 { last } else { range.last.max(last) }, ..range },
            });
        }
        (covered.unwrap_or_default(), movable || (covered.is_none() && !specs.is_empty()))
    }
}

const fn absolute(first: i32, last: i32) -> i32 {
    if last >= 0 { first + last } else { last }
}
