//! Patterns of BY and GET: names of keys, and of fields of hashes, with a place for the element.

use crate::call::Call;
use crate::failure::{Outcome, shown};
use esker_redis_store::{Kind, types};

/// A pattern: `#` is the element itself; in `a*b` it takes the place of the star; `a*b->f` is the field `f`
/// of the hash with that name.
#[derive(Clone, Copy, Debug)]
pub(super) enum SortPattern<'p> {
    Element,
    /// No star: it stands for no key.
    Nothing,
    Key {
        before: &'p [u8],
        behind: &'p [u8],
        field: Option<&'p [u8]>,
    },
}

impl<'p> SortPattern<'p> {
    pub(super) fn new(text: &'p [u8]) -> Self {
        if text == b"#" {
            return Self::Element;
        }
        let Some(star) = shown(text).iter().position(|byte| *byte == b'*') else { return Self::Nothing };
        let (before, behind) = (&text[..star], &text[star + 1..]);
        let arrow = shown(behind).windows(2).position(|pair| pair == b"->");
        match arrow.map(|arrow| (&behind[..arrow], &behind[arrow + 2..])) {
            Some((behind, field)) if !shown(field).is_empty() => {
                Self::Key { before, behind, field: Some(field) }
            }
            _ => Self::Key { before, behind, field: None },
        }
    }

    /// Whether it has a place for the element.
    pub(super) fn varies(&self) -> bool {
        matches!(self, Self::Key { .. })
    }
}

/// What a pattern stands for with an element; `None` if the key or field is not there or of another type.
pub(super) fn value_of(
    call: &mut Call<'_, '_>,
    pattern: &SortPattern<'_>,
    element: &[u8],
) -> Outcome<Option<Vec<u8>>> {
    let (before, behind, field) = match *pattern {
        SortPattern::Element => return Ok(Some(element.to_vec())),
        SortPattern::Nothing => return Ok(None),
        SortPattern::Key { before, behind, field } => (before, behind, field),
    };
    let key = [before, element, behind].concat();
    let entry = call.txn.entry(call.db(), &key)?;
    call.note_read(&key, entry.record().is_some());
    match (entry.record().map(esker_redis_store::Record::kind), field) {
        (Some(Kind::String), None) => Ok(Some(types::load_string(call.txn, &entry)?)),
        (Some(Kind::Hash), Some(field)) => Ok(types::load_field(call.txn, &entry, field)?),
        _ => Ok(None),
    }
}
