//! Full merge: computes a key's value from its operands, met newest first, and the base below them.
//!
//! [`Operands`] collects the operands, [`FullMerge`] walks the versions of one key for a reader, and
//! [`OperandMerger`] holds the keyspace's operator. Each entry expires on its own: an expired operand does
//! not count, and an expired base is no base.

use crate::large_values::LargePolicy;
use crate::meaning::{Meaning, meaning, split_expiry};
use crate::operator::{MergeError, MergeOperator};
use esker_base::error::MergeFailure;
use esker_base::limits::MAX_VALUE_LEN;
use esker_base::{Error, Result, Tag};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

/// Operands that are kept one by one. When there are more, and they take twice the bytes of the last partial
/// merge, they are merged into one if the operator can do that. So a key with a million operands costs a
/// reader the memory of its value, and as each byte is merged a bounded number of times on average, time
/// linear in the operands and not quadratic.
const MAX_KEPT: usize = 256;

/// Merges operands with the operator of a keyspace.
#[derive(Debug)]
pub struct OperandMerger {
    operator: MergeOperator,
    /// The keyspace's current name, for errors.
    keyspace: Mutex<Arc<str>>,
    /// Bytes of a base and its operands that are merged at most.
    most_bytes: usize,
}

impl OperandMerger {
    /// Merging by this operator, in the keyspace of this name.
    pub fn new(operator: MergeOperator, keyspace: Arc<str>) -> OperandMerger {
        OperandMerger { operator, keyspace: Mutex::new(keyspace), most_bytes: MAX_VALUE_LEN }
    }

    /// The same for readers and compactions that have a memory budget: merges of more bytes fail before they
    /// take the memory.
    #[must_use]
    pub fn within(mut self, budget_bytes: u64) -> OperandMerger {
        self.most_bytes = usize::try_from(budget_bytes).unwrap_or(usize::MAX).min(MAX_VALUE_LEN);
        self
    }

    /// Bytes of operands that a compaction merges at once: the result is a copy of them, and an operator may
    /// need another.
    pub(crate) fn run_bytes(&self) -> usize {
        self.most_bytes / 4
    }

    /// The error of a merge of so many bytes, if these are too many.
    fn check_bytes(&self, key: &[u8], bytes: usize) -> Result<()> {
        if bytes <= self.most_bytes { Ok(()) } else { Err(self.too_long(key, bytes)) }
    }

    #[cold]
    fn too_long(&self, key: &[u8], bytes: usize) -> Error {
        let most = self.most_bytes;
        let (what, advice) = match most < MAX_VALUE_LEN {
            true => ("the memory budget", "; a larger budget can read the key"),
            false => ("the longest value", ""),
        };
        let cause = format!("it would merge {bytes} bytes or more, {what} has {most} bytes{advice}");
        self.failure(key, &cause.into())
    }

    /// The operator.
    pub fn operator(&self) -> &MergeOperator {
        &self.operator
    }

    /// Notes a new name of the keyspace.
    pub fn rename(&self, keyspace: Arc<str>) {
        *self.keyspace.lock().unwrap_or_else(PoisonError::into_inner) = keyspace;
    }

    /// Full merge: the value that `operands`, oldest first, make of `base`. Without operands there must be a
    /// base.
    ///
    /// # Errors
    /// [`Error::Merge`] if the operator fails, or if there are more bytes than it may merge.
    pub fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        match (base, operands) {
            (Some(base), []) => Ok(base.to_vec()),
            _ => {
                let bytes = operands.iter().map(|operand| operand.len()).sum::<usize>();
                self.check_bytes(key, bytes.saturating_add(base.map_or(0, <[u8]>::len)))?;
                self.operator.merge(key, base, operands).map_err(|cause| self.failure(key, &cause))
            }
        }
    }

    /// Partial merge: one operand equivalent to `operands`, oldest first, if the operator can combine them.
    pub fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.operator.merge_operands(key, operands)
    }

    /// Checks that these bytes are an operand of the operator, before they are written.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    #[inline]
    pub fn check_operand(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.operator.check_operand(operand).map_err(|cause| self.refusal(key, &cause))
    }

    #[cold]
    fn refusal(&self, key: &[u8], cause: &MergeError) -> Error {
        let MergeFailure { keyspace, operator, .. } = self.told(key, cause);
        let key = key.escape_ascii();
        Error::invalid(format!(
            "the operand for key \"{key}\" in keyspace {keyspace:?} is invalid for its merge operator {operator:?}: {cause}"
        ))
    }

    #[cold]
    fn failure(&self, key: &[u8], cause: &MergeError) -> Error {
        Error::Merge(Box::new(self.told(key, cause)))
    }

    fn told(&self, key: &[u8], cause: &MergeError) -> MergeFailure {
        let keyspace = Arc::clone(&self.keyspace.lock().unwrap_or_else(PoisonError::into_inner));
        let (operator, cause) = (self.operator.text().into(), cause.to_string().into());
        MergeFailure { keyspace, key: key.into(), operator, cause }
    }
}

/// Operands of one key, newest first.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    bytes: Vec<u8>,
    kept: Vec<Operand>,
    /// Whether a partial merge has failed.
    is_incompressible: bool,
    /// Bytes left after the last partial merge.
    merged_bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) tag: Tag,
    /// The stored value, expiry time included.
    stored: Range<usize>,
    /// Where the operand itself begins.
    from: usize,
}

impl Operand {
    pub(crate) fn is_expiring(&self) -> bool {
        self.from != self.stored.start
    }
}

impl Operands {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.kept.clear();
        self.is_incompressible = false;
        self.merged_bytes = 0;
    }

    /// Adds one older than all others; `skipped` bytes precede the operand in the stored value.
    pub(crate) fn push(
        &mut self,
        operand_merger: &OperandMerger,
        key: &[u8],
        tag: Tag,
        stored: &[u8],
        skipped: usize,
    ) {
        if self.kept.len() >= MAX_KEPT
            && !self.is_incompressible
            && self.memory_bytes() >= 2 * self.merged_bytes
        {
            self.compress(operand_merger, key);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(stored);
        self.kept.push(Operand { tag, stored: start..self.bytes.len(), from: start + skipped });
    }

    /// An error as soon as there are more bytes than may be merged, whatever the operator can combine.
    fn keep_within(&mut self, operand_merger: &OperandMerger, key: &[u8]) -> Result<()> {
        if self.bytes.len() > operand_merger.most_bytes && !self.is_incompressible {
            self.compress(operand_merger, key);
        }
        operand_merger.check_bytes(key, self.bytes.len())
    }

    /// Whether a compaction merges no more than these at once.
    pub(crate) fn are_many(&self, operand_merger: &OperandMerger) -> bool {
        self.memory_bytes() > operand_merger.run_bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.kept.len() * size_of::<Operand>()
    }

    /// Partially merges the oldest operands that do not expire, if the operator can.
    fn compress(&mut self, operand_merger: &OperandMerger, key: &[u8]) {
        let from = self.kept.len() - self.lasting();
        if from + 1 >= self.kept.len() {
            return;
        }
        let one = operand_merger.partial_merge(key, &self.oldest_first(from..self.kept.len()));
        match one {
            None => self.is_incompressible = true,
            Some(one) => {
                let tag = self.kept[from].tag;
                self.bytes.truncate(self.kept[from].stored.start);
                self.kept.truncate(from);
                let start = self.bytes.len();
                self.bytes.extend_from_slice(&one);
                self.kept.push(Operand { tag, stored: start..self.bytes.len(), from: start });
                self.merged_bytes = self.memory_bytes();
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(crate) fn newest_first(&self) -> &[Operand] {
        &self.kept
    }

    /// How many of the oldest follow each other without one that expires.
    pub(crate) fn lasting(&self) -> usize {
        self.kept.iter().rev().take_while(|operand| !operand.is_expiring()).count()
    }

    pub(crate) fn oldest_first(&self, places: Range<usize>) -> Vec<&[u8]> {
        let operand = |operand: &Operand| &self.bytes[operand.from..operand.stored.end];
        self.kept[places].iter().rev().map(operand).collect()
    }

    pub(crate) fn stored(&self, operand: &Operand) -> &[u8] {
        &self.bytes[operand.stored.clone()]
    }
}

/// Full merge over the versions of one key that begins with an operand.
#[derive(Debug, Default)]
pub struct FullMerge {
    operands: Operands,
    /// The key's value, once it is known; `None` if it has none.
    value: Option<Vec<u8>>,
    is_done: bool,
    /// Whether some part of the value never expires.
    lasts: bool,
    /// The latest expiry time of the expiring parts.
    latest_end_ms: u64,
}

impl FullMerge {
    /// Resets the state and keeps the memory.
    pub fn clear(&mut self) {
        self.operands.clear();
        (self.value, self.is_done, self.lasts, self.latest_end_ms) = (None, false, false, 0);
    }

    /// Takes the next older version of the key that no range tombstone hides; `Break` if older ones do not
    /// matter. `is_over` returns whether an expiry time has passed for the reader, `large` is the treatment
    /// of a large base: if the reader skips it, the key has a value, whichever it is.
    ///
    /// # Errors
    /// [`Error::Merge`] if the operator fails; those of [`meaning`].
    pub fn take(
        &mut self,
        operand_merger: &OperandMerger,
        tag: Tag,
        key: &[u8],
        value: &[u8],
        is_over: impl FnOnce(u64) -> bool,
        large: &LargePolicy,
    ) -> Result<ControlFlow<()>> {
        let kind = meaning(tag, key)?;
        let (mut end_ms, mut behind) = (None, value);
        if tag.kind_byte() & esker_base::kind::FLAG_EXPIRY != 0 {
            let (expiry_ms, own) = split_expiry(tag, key, value)?;
            (end_ms, behind) = (Some(expiry_ms), own);
        }
        let is_past = end_ms.is_some_and(is_over);
        if !is_past && kind != Meaning::Absent {
            match end_ms {
                None => self.lasts = true,
                Some(end_ms) => self.latest_end_ms = self.latest_end_ms.max(end_ms),
            }
        }
        match kind {
            Meaning::Operand => {
                if !is_past {
                    // For this reader nothing of it expires any more.
                    self.operands.push(operand_merger, key, tag, behind, 0);
                    self.operands.keep_within(operand_merger, key)?;
                }
                return Ok(ControlFlow::Continue(()));
            }
            Meaning::Absent => self.end(operand_merger, key, None)?,
            Meaning::Present | Meaning::Expiring => {
                self.end(operand_merger, key, Some(behind).filter(|_| !is_past))?;
            }
            Meaning::Large | Meaning::ExpiringLarge if is_past => self.end(operand_merger, key, None)?,
            Meaning::Large | Meaning::ExpiringLarge if matches!(large, LargePolicy::Skipped) => {
                (self.is_done, self.value) = (true, Some(Vec::new()));
            }
            Meaning::Large | Meaning::ExpiringLarge => {
                let mut base = Vec::new();
                large.fetch(tag, key, behind, &mut base)?;
                self.end(operand_merger, key, Some(&base))?;
            }
        }
        Ok(ControlFlow::Break(()))
    }

    /// Ends the merge: there are no older versions. Returns the key's value.
    ///
    /// # Errors
    /// As [`FullMerge::take`].
    pub fn finish(&mut self, operand_merger: &OperandMerger, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if !self.is_done {
            self.end(operand_merger, key, None)?;
        }
        Ok(self.value.take())
    }

    fn end(&mut self, operand_merger: &OperandMerger, key: &[u8], base: Option<&[u8]>) -> Result<()> {
        self.is_done = true;
        let operands = self.operands.oldest_first(0..self.operands.newest_first().len());
        if base.is_some() || !operands.is_empty() {
            self.value = Some(operand_merger.full_merge(key, base, &operands)?);
        }
        Ok(())
    }

    /// Latest expiry of the value's parts, in milliseconds since 1970; `None` if some part has none.
    pub fn end_ms(&self) -> Option<u64> {
        (!self.lasts).then_some(self.latest_end_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::kind::FLAG_EXPIRY;
    use esker_base::{SeqNo, ValueKind};

    fn operand_merger(operator: MergeOperator) -> OperandMerger {
        OperandMerger::new(operator, "pages".into())
    }

    fn operand(seqno: u64) -> Tag {
        Tag::new(SeqNo::new(seqno), ValueKind::Merge)
    }

    #[test]
    fn a_long_chain_becomes_one_operand_on_the_way() {
        for operator in [MergeOperator::counter_checked(), MergeOperator::append(b"")] {
            let operand_merger = operand_merger(operator);
            let mut full_merge = FullMerge::default();
            for seqno in (1..=10_000u64).rev() {
                assert!(
                    full_merge
                        .take(
                            &operand_merger,
                            operand(seqno),
                            b"k",
                            b"1",
                            |_| false,
                            &LargePolicy::Unexpected
                        )
                        .unwrap()
                        .is_continue()
                );
                // The merged prefix, and as much again; at least a list of that many.
                let most = 2 * full_merge.operands.merged_bytes + (MAX_KEPT + 1) * size_of::<Operand>() * 2;
                assert!(
                    full_merge.operands.memory_bytes() <= most,
                    "{} bytes",
                    full_merge.operands.memory_bytes()
                );
            }
            let value = full_merge.finish(&operand_merger, b"k").unwrap().unwrap();
            assert!(value == b"10000" || value == vec![b'1'; 10_000]);
        }
    }

    /// The error comes with the operand that is too many, not after all were collected; operands that can be
    /// combined into few bytes are not too many.
    #[test]
    fn more_bytes_than_the_budget_are_refused_on_the_way() {
        let take = |operator: MergeOperator, operand_bytes: &[u8]| {
            let operand_merger = operand_merger(operator).within(1_000);
            let mut full_merge = FullMerge::default();
            let large = LargePolicy::Unexpected;
            for number in 1..=100u64 {
                let tag = operand(1_000 - number);
                if let Err(error) =
                    full_merge.take(&operand_merger, tag, b"k", operand_bytes, |_| false, &large)
                {
                    return (number, Err(error));
                }
            }
            (100, full_merge.finish(&operand_merger, b"k"))
        };
        let (number, refused) = take(MergeOperator::append(b""), &[7; 300]);
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Merge(_)), "{refused}");
        assert!(refused.to_string().contains("1200 bytes or more, the memory budget has 1000"), "{refused}");
        assert_eq!(number, 4);
        let (_, greatest) = take(MergeOperator::max(), &[7; 300]);
        assert_eq!(greatest.unwrap().unwrap(), [7; 300]);
        // The base counts as well.
        let operand_merger = operand_merger(MergeOperator::append(b"")).within(1_000);
        assert!(operand_merger.full_merge(b"k", Some(&[1; 900]), &[&[2; 101]]).is_err());
        assert_eq!(operand_merger.full_merge(b"k", Some(&[1; 900]), &[&[2; 100]]).unwrap().len(), 1_000);
    }

    #[test]
    fn each_entry_expires_on_its_own() {
        let operand_merger = operand_merger(MergeOperator::append(b","));
        let expiring = |seqno, kind: ValueKind| Tag::from_parts(SeqNo::new(seqno), kind as u8 | FLAG_EXPIRY);
        let at = |end_ms: u64, value: &[u8]| [&end_ms.to_le_bytes(), value].concat();
        let versions = [
            (expiring(9, ValueKind::Merge), at(20, b"d")),
            (operand(8), b"c".to_vec()),
            (expiring(7, ValueKind::Merge), at(30, b"b")),
            (expiring(6, ValueKind::Put), at(10, b"a")),
            (Tag::new(SeqNo::new(5), ValueKind::Put), b"older".to_vec()),
        ];
        let seen = |now_ms: u64, from: usize| {
            let mut full_merge = FullMerge::default();
            for (tag, value) in &versions[from..] {
                if full_merge
                    .take(
                        &operand_merger,
                        *tag,
                        b"k",
                        value,
                        |end_ms| end_ms <= now_ms,
                        &LargePolicy::Unexpected,
                    )
                    .unwrap()
                    .is_break()
                {
                    break;
                }
            }
            let value = full_merge.finish(&operand_merger, b"k").unwrap();
            (value.map(|value| String::from_utf8(value).unwrap()), full_merge.end_ms())
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(seen(9, 0), (is("a,b,c,d"), None));
        assert_eq!(seen(10, 0), (is("b,c,d"), None));
        assert_eq!(seen(20, 0), (is("b,c"), None));
        assert_eq!(seen(30, 0), (is("c"), None));
        assert_eq!(seen(9, 2), (is("a,b"), Some(30)));
        assert_eq!(seen(30, 2).0, None);
    }

    #[derive(Debug)]
    struct Pointed;

    impl crate::large_values::LargeValues for Pointed {
        fn fetch(&self, _: &[u8], pointer: &[u8], value: &mut Vec<u8>) -> Result<()> {
            value.extend_from_slice(pointer);
            Ok(())
        }
    }

    #[test]
    fn a_large_base_is_fetched() {
        use esker_base::kind::FLAG_BLOB;
        let operand_merger = operand_merger(MergeOperator::append(b","));
        let at = |large: &LargePolicy, expiry_ms: u64| {
            let mut full_merge = FullMerge::default();
            let first = full_merge.take(&operand_merger, operand(2), b"k", b"b", |_| false, large);
            assert!(first.unwrap().is_continue());
            let base = [&expiry_ms.to_le_bytes(), b"a".as_slice()].concat();
            let tag = Tag::from_parts(SeqNo::new(1), ValueKind::Put as u8 | FLAG_BLOB | FLAG_EXPIRY);
            let taken = full_merge.take(&operand_merger, tag, b"k", &base, |end_ms| end_ms <= 10, large);
            taken.and_then(|_| full_merge.finish(&operand_merger, b"k"))
        };
        let fetched = LargePolicy::Fetched(Arc::new(Pointed));
        assert_eq!(at(&fetched, 11).unwrap().as_deref(), Some(b"a,b".as_slice()));
        assert_eq!(at(&fetched, 10).unwrap().as_deref(), Some(b"b".as_slice()), "the base has expired");
        assert!(at(&LargePolicy::Skipped, 11).unwrap().is_some());
        assert!(matches!(at(&LargePolicy::Unexpected, 11), Err(Error::Unsupported(_))));
    }

    #[test]
    fn a_failed_merge_names_keyspace_key_and_operator() {
        let operand_merger = operand_merger(MergeOperator::counter_wrapping());
        let error = operand_merger.full_merge(b"k\n", Some(b"x"), &[b"1"]).unwrap_err().to_string();
        assert!(error.starts_with("the operands of key \"k\\n\" in keyspace \"pages\" cannot be merged by its merge operator \"counter\": \"x\" is no whole number"), "{error}");
        operand_merger.rename("leaves".into());
        let error = operand_merger.check_operand(b"k", b"one").unwrap_err().to_string();
        assert!(error.contains("keyspace \"leaves\"") && error.contains("\"one\""), "{error}");
    }
}
