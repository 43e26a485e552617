//! SORT: elements of a list, set or sorted set, ordered by themselves or by values of other keys.

mod pattern;

use super::Family;
use crate::call::Call;
use crate::checks;
use crate::failure::{Failure, Outcome, SYNTAX, WRONG_TYPE, shown};
use esker_redis_data::{Strings, Value};
use esker_redis_store::{EventClass, Kind, types};
use esker_resp::double::parse_double;
use pattern::{SortPattern, value_of};
use std::cmp::Ordering;
use std::ops::Range;

pub(crate) const COMMANDS: Family = &[("sort", sort), ("sort_ro", sort)];

/// What SORT is asked for.
#[derive(Debug, Default)]
struct SortQuery<'c> {
    descends: bool,
    by_text: bool,
    /// Offset and count.
    limit: Option<(i64, i64)>,
    /// The position of the key that takes the result.
    store: Option<usize>,
    by: Option<SortPattern<'c>>,
    keeps_order: bool,
    get: Vec<SortPattern<'c>>,
}

impl<'c> SortQuery<'c> {
    fn parse(call: &mut Call<'c, '_>) -> Outcome<Self> {
        let (args, mut query, mut at) = (call.args, Self::default(), 2);
        // The patterns read keys that no argument names.
        let reads_all = checks::may_read_all_keys(call.server, call.session, call.command, args);
        let may_store = call.command.name() == "sort";
        while at < args.len() {
            let left = args.len() - at - 1;
            if call.is_word(at, "asc") {
                query.descends = false;
            } else if call.is_word(at, "desc") {
                query.descends = true;
            } else if call.is_word(at, "alpha") {
                query.by_text = true;
            } else if call.is_word(at, "limit") && left >= 2 {
                query.limit = Some((call.integer(at + 1)?, call.integer(at + 2)?));
                at += 2;
            } else if may_store && call.is_word(at, "store") && left >= 1 {
                query.store = Some(at + 1);
                at += 1;
            } else if call.is_word(at, "by") && left >= 1 {
                query.by = Some(SortPattern::new(args[at + 1]));
                // A name without a place for the element is the same for all: nothing is sorted.
                query.keeps_order |= !SortPattern::new(args[at + 1]).varies();
                if SortPattern::new(args[at + 1]).varies() && !reads_all {
                    return Err("ERR BY option of SORT denied due to insufficient ACL permissions.".into());
                }
                at += 1;
            } else if call.is_word(at, "get") && left >= 1 {
                if !reads_all {
                    return Err("ERR GET option of SORT denied due to insufficient ACL permissions.".into());
                }
                query.get.push(SortPattern::new(args[at + 1]));
                at += 1;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Ok(query)
    }

    /// Which of the sorted elements are wanted.
    fn range(&self, length: usize) -> Range<usize> {
        let Some((offset, count)) = self.limit else { return 0..length };
        let within = |number: i64| usize::try_from(number).unwrap_or(0).min(length);
        let start = within(offset);
        let end = if count < 0 { length } else { (start + within(count)).min(length) };
        start..end
    }
}

fn sort(call: &mut Call<'_, '_>) -> Outcome {
    let mut query = SortQuery::parse(call)?;
    let entry = call.read_entry(1)?;
    let value = match entry.record().map(esker_redis_store::Record::kind) {
        None => Value::List(Strings::default()),
        Some(Kind::List | Kind::Set | Kind::SortedSet) => types::load(call.txn, &entry)?,
        Some(_) => return Err(WRONG_TYPE.into()),
    };
    if matches!(value, Value::Set(_)) && query.keeps_order {
        // Sets have no order that could be kept, and what is stored or done by a script must not depend on
        // chance.
        (query.keeps_order, query.by_text, query.by) = (false, true, None);
    }
    let mut elements = in_order(&value);
    if query.keeps_order {
        if query.descends {
            elements.reverse();
        }
    } else {
        sort_elements(call, &query, &mut elements)?;
    }
    let elements = &elements[query.range(elements.len())];
    match query.store {
        None => answer(call, &query, elements),
        Some(position) => store(call, &query, elements, position),
    }
}

/// The elements as they lie: sorted sets by score.
fn in_order(value: &Value) -> Vec<&[u8]> {
    match value {
        Value::List(elements) | Value::Set(elements) => elements.iter().collect(),
        Value::SortedSet(set) => {
            let mut members: Vec<(&[u8], f64)> = set.iter().collect();
            members.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0)));
            members.into_iter().map(|(member, _)| member).collect()
        }
        Value::String(_) | Value::Hash(_) | Value::Stream(_) => Vec::new(),
    }
}

/// What an element is compared by.
enum Weight {
    Number(f64),
    /// `None` if the key of the weight is not there.
    Text(Option<Vec<u8>>),
}

fn sort_elements(call: &mut Call<'_, '_>, query: &SortQuery<'_>, elements: &mut Vec<&[u8]>) -> Outcome {
    let mut weighted = Vec::with_capacity(elements.len());
    for element in elements.drain(..) {
        let text = match &query.by {
            None => Some(element.to_vec()),
            Some(by) => value_of(call, by, element)?,
        };
        let weight = match (query.by_text, text) {
            (true, text) => Weight::Text(text),
            (false, None) => Weight::Number(0.0),
            (false, Some(text)) => Weight::Number(
                number(&text)
                    .ok_or_else(|| Failure::from("ERR One or more scores can't be converted into double"))?,
            ),
        };
        weighted.push((weight, element));
    }
    let is_stored = query.store.is_some();
    weighted.sort_by(|(a, a_element), (b, b_element)| {
        let ordering = match (a, b) {
            (Weight::Number(a), Weight::Number(b)) => a.total_cmp(b).then_with(|| a_element.cmp(b_element)),
            (Weight::Text(a), Weight::Text(b)) => compare_texts(a.as_deref(), b.as_deref(), is_stored),
            _ => Ordering::Equal,
        };
        if query.descends { ordering.reverse() } else { ordering }
    });
    elements.extend(weighted.into_iter().map(|(_, element)| element));
    Ok(())
}

/// Redis compares texts that are only shown as C does, up to the first zero byte.
fn compare_texts(a: Option<&[u8]>, b: Option<&[u8]>, is_stored: bool) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if !is_stored => shown(a).cmp(shown(b)),
        (a, b) => a.cmp(&b),
    }
}

/// A number as `strtod` of C reads it: white space before it is skipped, a zero byte ends it, nothing is 0.
fn number(text: &[u8]) -> Option<f64> {
    let text = shown(text);
    if text.is_empty() {
        return Some(0.0);
    }
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    // Zeros are equal, whatever their sign.
    parse_double(&text[blanks..]).map(|number| number + 0.0)
}

fn answer(call: &mut Call<'_, '_>, query: &SortQuery<'_>, elements: &[&[u8]]) -> Outcome {
    call.reply.array(elements.len() * query.get.len().max(1));
    for element in elements {
        if query.get.is_empty() {
            call.reply.bulk(element);
        }
        for get in &query.get {
            match value_of(call, get, element)? {
                Some(value) => call.reply.bulk(&value),
                None => call.reply.null(),
            }
        }
    }
    Ok(())
}

fn store(call: &mut Call<'_, '_>, query: &SortQuery<'_>, elements: &[&[u8]], position: usize) -> Outcome {
    let mut result = Strings::default();
    for element in elements {
        if query.get.is_empty() {
            result.push(element);
        }
        for get in &query.get {
            result.push(&value_of(call, get, element)?.unwrap_or_default());
        }
    }
    let mut entry = call.entry(position)?;
    let was_there = types::delete_key(call.txn, &mut entry)?;
    let length = result.len();
    if length > 0 {
        types::save(call.txn, &mut entry, &Value::List(result), None)?;
        call.changed(position, EventClass::LIST, "sortstore");
    } else if was_there {
        call.changed(position, EventClass::GENERIC, "del");
    }
    call.reply.integer(length as i64);
    Ok(())
}
