//! SplitList lists: each element is an entry whose key ends with its position.
//!
//! Elements that are pushed get positions [`STEP`] apart. An element that is inserted between two others gets
//! the middle between theirs; where no number is left between them, the elements behind are spread anew.
//! Elements that are removed leave holes.
//!
//! * LP1. `len` is the number of the object's entries; `head` and `tail` are the least and the greatest
//!   position among them.
//! * LP2. While [`OFF_GRID`] is not set, every position is `head` plus a multiple of [`STEP`]. So the list
//!   has no holes exactly if head and tail are `len - 1` steps apart, and then positions are computed.

use super::Side;
use crate::layout::{PhysicalDb, Space};
use crate::list_ends::ListEnd;
use crate::txn::Txn;
use crate::types::malformed;
use esker::{Result, Value};

/// Distance of pushed elements: 20 elements are inserted at one place before others must move.
const STEP: u64 = 1 << 20;

/// The position of the first element: 2^43 pushes fit on either side.
const MIDDLE: u64 = 1 << 63;

/// Flag: positions between the steps were used.
const OFF_GRID: u8 = 1;

/// Elements up to which they are deleted one by one: a range delete costs all later reads below it a little.
const POINT_DELETES: u64 = 1024;

/// Elements that are read before some of them are changed.
const PAGE: usize = 1024;

/// A split list.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitList {
    object: u64,
    flags: u8,
    pub(super) len: u64,
    head: u64,
    tail: u64,
}

impl SplitList {
    /// A list without elements.
    pub(super) fn new(txn: &Txn<'_>, db: PhysicalDb) -> Result<Self> {
        let object = txn.store().new_object(db)?;
        Ok(Self { object, flags: 0, len: 0, head: MIDDLE, tail: MIDDLE })
    }

    pub(super) fn decode(payload: &[u8]) -> Result<Self> {
        let number = |at: usize| {
            let bytes = payload.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_le_bytes).ok_or_else(|| malformed("list"))
        };
        let list = Self {
            object: number(0)?,
            flags: number(8)? as u8,
            len: number(9)?,
            head: number(17)?,
            tail: number(25)?,
        };
        if list.len == 0 || list.head > list.tail {
            return Err(malformed("list"));
        }
        Ok(list)
    }

    pub(super) fn encode(&self) -> [u8; 33] {
        let mut payload = [0; 33];
        payload[..8].copy_from_slice(&self.object.to_le_bytes());
        payload[8] = self.flags;
        payload[9..17].copy_from_slice(&self.len.to_le_bytes());
        payload[17..25].copy_from_slice(&self.head.to_le_bytes());
        payload[25..].copy_from_slice(&self.tail.to_le_bytes());
        payload
    }

    fn key(&self, position: u64) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.object.to_be_bytes());
        key[8..].copy_from_slice(&position.to_be_bytes());
        key
    }

    /// Entries from one position to another, both included, with their positions.
    fn entries<'t>(
        &self,
        txn: &'t Txn<'_>,
        first: u64,
        last: u64,
    ) -> impl DoubleEndedIterator<Item = Result<(u64, Value)>> + use<'t> {
        let range = txn.range(Space::Elements, self.key(first)..=self.key(last));
        range.map(|entry| {
            let (key, value) = entry?;
            Ok((position_in(&key)?, value))
        })
    }

    /// Whether positions are computed from indexes.
    fn is_regular(&self) -> bool {
        self.flags & OFF_GRID == 0 && self.tail - self.head == (self.len - 1).saturating_mul(STEP)
    }

    /// The position of the element at an index, which must be there.
    pub(super) fn position_of(&self, txn: &Txn<'_>, index: u64) -> Result<u64> {
        if self.is_regular() {
            return Ok(self.head + index * STEP);
        }
        if index + 1 == self.len {
            return Ok(self.tail);
        }
        let mut all = self.entries(txn, self.head, self.tail);
        let found = if index < self.len / 2 {
            all.nth(index as usize)
        } else {
            all.nth_back((self.len - 1 - index) as usize)
        };
        Ok(found.ok_or_else(|| malformed("list"))??.0)
    }

    /// The element at a position.
    pub(super) fn get(&self, txn: &Txn<'_>, position: u64) -> Result<Value> {
        txn.get(Space::Elements, &self.key(position))?.ok_or_else(|| malformed("list"))
    }

    /// Sets the element at a position that has one.
    pub(super) fn set(&self, txn: &mut Txn<'_>, position: u64, value: &[u8]) -> Result<()> {
        self.forget_ends(txn);
        self.put(txn, position, value)
    }

    /// Puts an element at a position.
    fn put(&self, txn: &mut Txn<'_>, position: u64, value: &[u8]) -> Result<()> {
        txn.put(Space::Elements, &self.key(position), value)
    }

    /// Before elements are removed, set or moved, other than by a pop (LE1).
    fn forget_ends(&self, txn: &mut Txn<'_>) {
        drop(txn.take_list_ends(self.object));
    }

    pub(super) fn push(&mut self, txn: &mut Txn<'_>, side: Side, value: &[u8]) -> Result<()> {
        let position = match side {
            _ if self.len == 0 => Some(MIDDLE),
            Side::Head => self.head.checked_sub(STEP),
            // The greatest position stays free, so that one behind the tail is a number.
            Side::Tail => self.tail.checked_add(STEP).filter(|position| *position < u64::MAX),
        };
        let Some(position) = position else {
            self.centre(txn)?;
            return self.push(txn, side, value);
        };
        self.put(txn, position, value)?;
        if self.len == 0 || side == Side::Head {
            self.head = position;
        }
        if self.len == 0 || side == Side::Tail {
            self.tail = position;
        }
        self.len += 1;
        Ok(())
    }

    /// Moves all elements into a new object around the middle, when positions at one end are used up: once in
    /// 2^43 pushes.
    fn centre(&mut self, txn: &mut Txn<'_>) -> Result<()> {
        self.forget_ends(txn);
        let mut moved = Self::new(txn, PhysicalDb((self.object >> 48) as u16))?;
        let first = MIDDLE - (self.len / 2).saturating_mul(STEP).min(MIDDLE / 2);
        (moved.head, moved.tail) = (first, first);
        let mut from = self.head;
        while moved.len < self.len {
            let page: Vec<_> = self.entries(txn, from, self.tail).take(PAGE).collect::<Result<_>>()?;
            let Some((last, _)) = page.last() else { return Err(malformed("list")) };
            from = last + 1;
            for (_, value) in &page {
                moved.tail = first + moved.len * STEP;
                moved.put(txn, moved.tail, value)?;
                moved.len += 1;
            }
        }
        txn.discard_object(self.object)?;
        *self = moved;
        Ok(())
    }

    /// Removes an element at an end, before so many further commands on this list.
    pub(super) fn pop(&mut self, txn: &mut Txn<'_>, side: Side, commands_behind: usize) -> Result<Value> {
        let is_tail = side == Side::Tail;
        let position = if is_tail { self.tail } else { self.head };
        // If it fails on the way, the ends are forgotten.
        let mut ends = txn.take_list_ends(self.object).unwrap_or_default();
        let end = ends.end(is_tail);
        let to_read = (end.to_read(position, commands_behind) as u64).min(self.len);
        // A walk over changed elements costs several times as much, so what the whole group pops is read
        // before it changes any.
        if to_read > 1 && self.is_regular() && txn.leaves_alone(Space::Elements) {
            end.set(self.outermost(txn, is_tail, to_read, commands_behind + 1)?);
        }
        let value = match end.pop(position) {
            Some(value) => value,
            None => self.get(txn, position)?,
        };
        ends.forget_other(position, is_tail);
        if self.len > 1 {
            let next = match side {
                Side::Head if self.is_regular() => position + STEP,
                Side::Tail if self.is_regular() => position - STEP,
                Side::Head => self.first_from(txn, position + 1)?,
                Side::Tail => self.last_until(txn, position - 1)?,
            };
            match side {
                Side::Head => self.head = next,
                Side::Tail => self.tail = next,
            }
        }
        txn.delete(Space::Elements, &self.key(position))?;
        self.len -= 1;
        if self.len > 0 {
            txn.give_list_ends(self.object, ends);
        }
        Ok(value)
    }

    /// Up to `count` elements from an end of a regular list, with their positions; `pops` of them are popped.
    fn outermost(&self, txn: &Txn<'_>, is_tail: bool, count: u64, pops: usize) -> Result<Vec<(u64, Value)>> {
        let distance = (count - 1) * STEP;
        let (first, last) = match is_tail {
            false => (self.head, self.head + distance),
            true => (self.tail - distance, self.tail),
        };
        let (mut elements, mut bytes) = (Vec::with_capacity(count as usize), 0);
        txn.visit(Space::Elements, self.key(first)..=self.key(last), is_tail, |key, value| {
            elements.push((position_in(key)?, Value::copied(value)));
            bytes += value.len();
            Ok(ListEnd::goes_on(elements.len(), bytes, pops))
        })?;
        Ok(elements)
    }

    fn first_from(&self, txn: &Txn<'_>, position: u64) -> Result<u64> {
        let first = self.entries(txn, position, self.tail).next();
        Ok(first.ok_or_else(|| malformed("list"))??.0)
    }

    fn last_until(&self, txn: &Txn<'_>, position: u64) -> Result<u64> {
        let last = self.entries(txn, self.head, position).next_back();
        Ok(last.ok_or_else(|| malformed("list"))??.0)
    }

    /// Shows the elements with indexes from `first` to below `end`, which is above it.
    pub(super) fn for_each(
        &self,
        txn: &Txn<'_>,
        first: u64,
        end: u64,
        from: Side,
        show: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<()> {
        let is_backward = from == Side::Tail;
        let (start, stop) = match is_backward {
            false => (self.position_of(txn, first)?, self.tail),
            true => (self.head, self.position_of(txn, end - 1)?),
        };
        let mut indexes = first..end;
        txn.visit(Space::Elements, self.key(start)..=self.key(stop), is_backward, |_, value| {
            let index = if is_backward { indexes.next_back() } else { indexes.next() };
            Ok(index.is_some_and(|index| show(index, value)) && !indexes.is_empty())
        })
    }

    /// Inserts an element before the one at an index, or behind the last.
    pub(super) fn insert(&mut self, txn: &mut Txn<'_>, index: u64, value: &[u8]) -> Result<()> {
        if index == 0 {
            return self.push(txn, Side::Head, value);
        }
        if index >= self.len {
            return self.push(txn, Side::Tail, value);
        }
        let before = self.position_of(txn, index - 1)?;
        let behind = self.first_from(txn, before + 1)?;
        let middle = before + (behind - before) / 2;
        let position = if middle > before { middle } else { self.spread(txn, before)? };
        self.flags |= OFF_GRID;
        self.len += 1;
        self.put(txn, position, value)
    }

    /// Spreads the elements behind a position, as few as need be, and returns a free position behind it.
    ///
    /// The more elements are spread the narrower they may lie, so that a place where many are inserted is not
    /// spread as a whole each time.
    fn spread(&mut self, txn: &mut Txn<'_>, before: u64) -> Result<u64> {
        self.forget_ends(txn);
        let mut moved: Vec<(u64, Value)> = Vec::new();
        let mut limit = None;
        for entry in self.entries(txn, before + 1, self.tail) {
            let (position, value) = entry?;
            let places = moved.len() as u64 + 2;
            if (position - before) / places >= (STEP / 64 / places).max(16) {
                limit = Some(position);
                break;
            }
            moved.push((position, value));
        }
        let places = moved.len() as u64 + 2;
        let distance = match limit {
            Some(limit) => (limit - before) / places,
            // Up to the tail, behind which is room; where it ends, half of what is left.
            None => STEP.min((u64::MAX - before) / places / 2).max(1),
        };
        for (position, _) in &moved {
            txn.delete(Space::Elements, &self.key(*position))?;
        }
        let mut position = before + distance;
        for (_, value) in &moved {
            position += distance;
            self.put(txn, position, value)?;
        }
        if limit.is_none() {
            self.tail = position;
        }
        Ok(before + distance)
    }

    /// Removes up to `most` elements that equal `value`, and returns how many.
    pub(super) fn remove(&mut self, txn: &mut Txn<'_>, value: &[u8], most: u64, from: Side) -> Result<u64> {
        self.forget_ends(txn);
        let (mut removed, mut left) = (0, self.len);
        let (mut first, mut last) = (self.head, self.tail);
        let mut equal = Vec::new();
        while left > 0 && removed < most {
            equal.clear();
            let mut entries = self.entries(txn, first, last);
            let room = usize::try_from(most - removed).map_or(PAGE, |room| room.min(PAGE));
            let mut seen = 0;
            while equal.len() < room && left > 0 {
                let next = if from == Side::Head { entries.next() } else { entries.next_back() };
                let (position, item) = next.ok_or_else(|| malformed("list"))??;
                (left, seen) = (left - 1, position);
                if *item == *value {
                    equal.push(position);
                }
            }
            drop(entries);
            match from {
                Side::Head => first = seen + 1,
                Side::Tail => last = seen.saturating_sub(1),
            }
            for position in &equal {
                txn.delete(Space::Elements, &self.key(*position))?;
            }
            removed += equal.len() as u64;
        }
        self.len -= removed;
        if removed > 0 && self.len > 0 {
            (self.head, self.tail) = (self.first_from(txn, self.head)?, self.last_until(txn, self.tail)?);
        }
        Ok(removed)
    }

    /// Keeps the elements with indexes from `first` to below `end`, which is above it.
    pub(super) fn trim(&mut self, txn: &mut Txn<'_>, first: u64, end: u64) -> Result<()> {
        self.forget_ends(txn);
        let (head, tail) = (self.position_of(txn, first)?, self.position_of(txn, end - 1)?);
        let old = *self;
        if first > 0 {
            old.delete(txn, old.head, head - 1, first)?;
        }
        if end < old.len {
            old.delete(txn, tail + 1, old.tail, old.len - end)?;
        }
        (self.head, self.tail, self.len) = (head, tail, end - first);
        Ok(())
    }

    /// Deletes the entries from one position to another, both included; there are `count` of them.
    fn delete(&self, txn: &mut Txn<'_>, first: u64, last: u64, count: u64) -> Result<()> {
        if count > POINT_DELETES {
            return txn.delete_range(Space::Elements, self.key(first)..=self.key(last));
        }
        let positions = self.entries(txn, first, last).map(|entry| entry.map(|(position, _)| position));
        let positions: Vec<u64> = positions.collect::<Result<_>>()?;
        for position in positions {
            txn.delete(Space::Elements, &self.key(position))?;
        }
        Ok(())
    }
}

/// The position in an element's key.
fn position_in(key: &[u8]) -> Result<u64> {
    let position = key.get(8..).and_then(|bytes| bytes.try_into().ok());
    Ok(u64::from_be_bytes(position.ok_or_else(|| malformed("list"))?))
}
