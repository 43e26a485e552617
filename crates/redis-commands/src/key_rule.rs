//! Finds the keys of commands whose key specifications do not tell, by a rule for each.

use crate::flags::KeyFlags;
use crate::key_spec::KeyRef;
use crate::text::{before_nul, leading_integer, same_word};

/// How the keys of a command are found where its specifications fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyRule {
    /// Not at all.
    None,
    /// A number of keys at a position, the keys after it, and perhaps a destination in argument 1.
    Counted { count: usize, destination: bool },
    /// The key, and the last `STORE`.
    Sort,
    /// The key.
    SortReadOnly,
    /// One key, or those after `KEYS`.
    Migrate,
    /// The key, and the last `STORE` or `STOREDIST`.
    GeoRadius,
    /// Half of what follows `STREAMS`.
    Streams,
    /// The key, read as well if there is a `GET`.
    Set,
    /// The key, only read if all operations are `GET`.
    Bitfield,
}

const READ: KeyFlags = KeyFlags::RO.with(KeyFlags::ACCESS);
const OVERWRITE: KeyFlags = KeyFlags::OW.with(KeyFlags::UPDATE);
const CHANGE: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE);
const TAKE: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);

impl KeyRule {
    /// The rule of a command.
    pub(crate) fn of(name: &str) -> Self {
        let counted = |count| Self::Counted { count, destination: false };
        match name {
            "bitfield" => Self::Bitfield,
            "set" => Self::Set,
            "migrate" => Self::Migrate,
            "sort" => Self::Sort,
            "sort_ro" => Self::SortReadOnly,
            "georadius" | "georadiusbymember" => Self::GeoRadius,
            "xread" | "xreadgroup" => Self::Streams,
            "blmpop" | "bzmpop" | "eval" | "eval_ro" | "evalsha" | "evalsha_ro" | "fcall" | "fcall_ro" => {
                counted(2)
            }
            "lmpop" | "zmpop" | "sintercard" | "zdiff" | "zinter" | "zintercard" | "zunion" => counted(1),
            "zdiffstore" | "zinterstore" | "zunionstore" => Self::Counted { count: 2, destination: true },
            _ => Self::None,
        }
    }

    /// Appends the keys.
    pub(crate) fn find<A: AsRef<[u8]>>(self, arguments: &[A], found: &mut Vec<KeyRef>) {
        let one = |found: &mut Vec<KeyRef>, flags| found.push(KeyRef { position: 1, flags });
        match self {
            Self::None => {}
            Self::Counted { count, destination } => counted(arguments, count, destination, found),
            Self::Sort => sort(arguments, found),
            Self::SortReadOnly => one(found, READ),
            Self::Migrate => migrate(arguments, found),
            Self::GeoRadius => georadius(arguments, found),
            Self::Streams => streams(arguments, found),
            Self::Set => one(found, if reads_old_value(arguments) { CHANGE } else { OVERWRITE }),
            Self::Bitfield => one(found, if only_reads_bits(arguments) { READ } else { CHANGE }),
        }
    }
}

/// Keys after their number. A number that the arguments do not hold finds none, whatever it is.
fn counted<A: AsRef<[u8]>>(arguments: &[A], count: usize, destination: bool, found: &mut Vec<KeyRef>) {
    let Some(text) = arguments.get(count) else { return };
    let keys = usize::try_from(leading_integer(text.as_ref())).unwrap_or(0);
    let first = count + 1;
    if keys < 1 || keys > arguments.len() - first {
        return;
    }
    found.extend((first..first + keys).map(|position| KeyRef { position, flags: KeyFlags::NONE }));
    if destination {
        found.push(KeyRef { position: 1, flags: KeyFlags::NONE });
    }
}

/// Options with arguments are skipped, so that `BY store` is no destination.
fn sort<A: AsRef<[u8]>>(arguments: &[A], found: &mut Vec<KeyRef>) {
    found.push(KeyRef { position: 1, flags: READ });
    let mut destination = None;
    let mut at = 2;
    while at < arguments.len() {
        let word = arguments[at].as_ref();
        if same_word(word, "limit") {
            at += 2;
        } else if same_word(word, "get") || same_word(word, "by") {
            at += 1;
        } else if same_word(word, "store") && at + 1 < arguments.len() {
            destination = Some(at + 1);
        }
        at += 1;
    }
    found.extend(destination.map(|position| KeyRef { position, flags: OVERWRITE }));
}

/// With `KEYS` the single key must be empty; otherwise the command is wrong and has no keys.
fn migrate<A: AsRef<[u8]>>(arguments: &[A], found: &mut Vec<KeyRef>) {
    let mut positions = 3..4;
    let mut at = 6;
    while at < arguments.len() {
        let word = arguments[at].as_ref();
        if same_word(word, "keys") {
            let wrong = !arguments[3].as_ref().is_empty();
            positions = if wrong { 0..0 } else { at + 1..arguments.len() };
            break;
        }
        if same_word(word, "auth") {
            at += 1;
        } else if same_word(word, "auth2") {
            at += 2;
        }
        at += 1;
    }
    found.extend(positions.map(|position| KeyRef { position, flags: TAKE }));
}

/// The last destination wins, as it does when the command runs.
fn georadius<A: AsRef<[u8]>>(arguments: &[A], found: &mut Vec<KeyRef>) {
    found.push(KeyRef { position: 1, flags: KeyFlags::NONE });
    let mut destination = None;
    let mut at = 5;
    while at + 1 < arguments.len() {
        let word = arguments[at].as_ref();
        if same_word(word, "store") || same_word(word, "storedist") {
            destination = Some(at + 1);
            at += 1;
        }
        at += 1;
    }
    found.extend(destination.map(|position| KeyRef { position, flags: KeyFlags::NONE }));
}

/// A stream or group may be called `STREAMS`, so options are skipped with their arguments.
fn streams<A: AsRef<[u8]>>(arguments: &[A], found: &mut Vec<KeyRef>) {
    let mut at = 1;
    while at < arguments.len() {
        let word = arguments[at].as_ref();
        if same_word(word, "block") || same_word(word, "count") {
            at += 1;
        } else if same_word(word, "group") {
            at += 2;
        } else if same_word(word, "streams") {
            let rest = arguments.len() - at - 1;
            if rest.is_multiple_of(2) {
                let positions = at + 1..at + 1 + rest / 2;
                found.extend(positions.map(|position| KeyRef { position, flags: KeyFlags::NONE }));
            }
            return;
        } else if !same_word(word, "noack") {
            return;
        }
        at += 1;
    }
}

fn reads_old_value<A: AsRef<[u8]>>(arguments: &[A]) -> bool {
    arguments.iter().skip(3).any(|argument| same_word(argument.as_ref(), "get"))
}

/// What cannot be read counts as a change.
fn only_reads_bits<A: AsRef<[u8]>>(arguments: &[A]) -> bool {
    let mut at = 2;
    while at < arguments.len() {
        let behind = arguments.len() - at - 1;
        let word = before_nul(arguments[at].as_ref());
        if same_word(word, "get") && behind >= 2 {
            at += 3;
        } else if same_word(word, "overflow") && behind >= 1 {
            at += 2;
        } else {
            return false;
        }
    }
    true
}
