//! Finds keys by key specifications.

use crate::flags::KeyFlags;
use crate::key_spec::{Begin, Extent, KeyRef, KeySpec};
use crate::text::same_word;
use esker_resp::integer::parse_integer;

/// The specifications do not tell which arguments are keys: one is not complete, or the arguments are wrong.
#[derive(Debug)]
pub(super) struct Untold;

/// Appends the keys of all specifications.
pub(super) fn find<A: AsRef<[u8]>>(
    specs: &[KeySpec],
    arguments: &[A],
    found: &mut Vec<KeyRef>,
) -> Result<(), Untold> {
    for spec in specs.iter().filter(|spec| !spec.flags.contains(KeyFlags::NOT_KEY)) {
        let Some(first) = first(spec.begin, arguments)? else { continue };
        let (first, last, step) = range(spec.extent, first, arguments)?;
        if first < 1 || last < first || last >= signed(arguments.len()) {
            return Err(Untold);
        }
        let mut position = first;
        while position <= last {
            found
                .push(KeyRef { position: usize::try_from(position).map_err(|_| Untold)?, flags: spec.flags });
            position += step.max(1);
        }
        if spec.flags.contains(KeyFlags::INCOMPLETE) {
            return Err(Untold);
        }
    }
    Ok(())
}

/// Where the search begins; none if the word that stands before the keys is absent.
fn first<A: AsRef<[u8]>>(begin: Begin, arguments: &[A]) -> Result<Option<i64>, Untold> {
    match begin {
        Begin::Index(index) => Ok(Some(i64::from(index))),
        Begin::Keyword { word, from } => Ok(after_keyword(word, from, arguments)),
        Begin::Unknown => Err(Untold),
    }
}

/// The position after a word.
///
/// Forwards the last argument is not looked at, since no key follows it; backwards argument 1 is not.
fn after_keyword<A: AsRef<[u8]>>(word: &str, from: i32, arguments: &[A]) -> Option<i64> {
    let is_word = |position: &usize| same_word(arguments[*position].as_ref(), word);
    let count = arguments.len();
    let found = if from > 0 {
        (usize::try_from(from).ok()?..count.saturating_sub(1)).find(is_word)
    } else {
        let start = count.checked_sub(usize::try_from(from.unsigned_abs()).ok()?)?;
        (2..(start + 1).min(count)).rev().find(is_word)
    };
    found.map(|position| signed(position) + 1)
}

/// The first key, the last and the distance between them. Neither is checked yet.
fn range<A: AsRef<[u8]>>(extent: Extent, first: i64, arguments: &[A]) -> Result<(i64, i64, i64), Untold> {
    let count = signed(arguments.len());
    match extent {
        Extent::Range { last, step, limit } => {
            let last = i64::from(last);
            let last = match (last, i64::from(limit)) {
                (0.., _) => first + last,
                (_, 0) => count + last,
                (_, limit) => first + (count - first) / limit + last,
            };
            Ok((first, last, i64::from(step)))
        }
        Extent::Counted => {
            let text = usize::try_from(first).ok().and_then(|first| arguments.get(first)).ok_or(Untold)?;
            let keys = parse_integer(text.as_ref()).filter(|keys| *keys >= 0).ok_or(Untold)?;
            // Redis counts in 32 bits and so must this, to see the keys that it sees.
            Ok((first + 1, first + i64::from(keys as i32), 1))
        }
        Extent::Unknown => Err(Untold),
    }
}

/// A position as a signed number, which no number of arguments exceeds.
fn signed(position: usize) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}
