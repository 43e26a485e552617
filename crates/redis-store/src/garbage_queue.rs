//! The queue of garbage collection: the objects of the garbage list by their numbers, in memory.
//!
//! * GQ1. Each object of the garbage list is known to the queue, or its number is not below the one from
//!   which the list is unread, or the commit or the round that it belongs to is not over.
//!
//! Rejected: to read the list from its beginning in each round. That walks over the deleted entries of all
//! rounds before, and many collections that are deleted at once take a time by the square of their number.

use esker::Result;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::Range;

/// Numbers that are kept in memory: a mebibyte.
const KNOWN_OBJECTS: usize = 1 << 16;

/// Objects that are read of the list at once. Each reading walks once over what is deleted there.
const READ_OBJECTS: usize = 1 << 14;

/// Objects of the garbage list.
#[derive(Debug, Default)]
pub(crate) struct GarbageQueue(Mutex<Objects>);

#[derive(Debug, Default)]
struct Objects {
    known: BTreeSet<u64>,
    /// The list may have objects from this number on that are not known.
    unread_from: Option<u64>,
}

impl Objects {
    fn add(&mut self, object: u64) {
        match self.known.len() < KNOWN_OBJECTS {
            true => drop(self.known.insert(object)),
            false => self.unread(object),
        }
    }

    fn unread(&mut self, from: u64) {
        self.unread_from = Some(self.unread_from.map_or(from, |before| before.min(from)));
    }

    fn take(&mut self, count: usize) -> Vec<u64> {
        std::iter::from_fn(|| self.known.pop_first()).take(count).collect()
    }
}

impl GarbageQueue {
    /// The queue of a list that was not read yet.
    pub(crate) fn unread() -> Self {
        Self(Mutex::new(Objects { known: BTreeSet::new(), unread_from: Some(0) }))
    }

    /// Adds objects that are in the list.
    pub(crate) fn add(&self, objects: &[u64]) {
        if !objects.is_empty() {
            let mut queue = self.0.lock();
            objects.iter().for_each(|object| queue.add(*object));
        }
    }

    /// Forgets objects of a range: they were taken off the list.
    pub(crate) fn forget(&self, range: Range<u64>) {
        self.0.lock().known.retain(|object| !range.contains(object));
    }

    /// Takes up to `count` objects in order; none if the list is empty. `read` gets up to so many objects of
    /// the list in order, from a number on.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn take(
        &self,
        count: usize,
        read: impl FnOnce(u64, usize) -> Result<Vec<u64>>,
    ) -> Result<Vec<u64>> {
        let from = {
            let mut queue = self.0.lock();
            if !queue.known.is_empty() {
                return Ok(queue.take(count));
            }
            match queue.unread_from.take() {
                Some(from) => from,
                None => return Ok(Vec::new()),
            }
        };
        let found = read(from, READ_OBJECTS);
        let mut queue = self.0.lock();
        let found = found.inspect_err(|_| queue.unread(from))?;
        if let Some(last) = found.last().filter(|_| found.len() >= READ_OBJECTS) {
            queue.unread(last.saturating_add(1));
        }
        found.iter().for_each(|object| queue.add(*object));
        Ok(queue.take(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    const OBJECTS: u64 = 100_000;
    const OF_A_ROUND: usize = 64;

    /// A list, and how many entries the readings of it walked over, deleted ones included.
    #[derive(Default)]
    struct List {
        objects: RefCell<BTreeSet<u64>>,
        deleted: RefCell<BTreeSet<u64>>,
        walked: Cell<usize>,
    }

    impl List {
        fn read(&self, from: u64, count: usize) -> Result<Vec<u64>> {
            let found: Vec<u64> = self.objects.borrow().range(from..).take(count).copied().collect();
            let end = found.last().filter(|_| found.len() == count).map_or(u64::MAX, |last| last + 1);
            let passed = self.deleted.borrow().range(from..end).count();
            self.walked.set(self.walked.get() + found.len() + passed);
            Ok(found)
        }

        fn round(&self, queue: &GarbageQueue) -> usize {
            let taken = queue.take(OF_A_ROUND, |from, count| self.read(from, count)).expect("a reading");
            for object in &taken {
                self.objects.borrow_mut().remove(object);
                self.deleted.borrow_mut().insert(*object);
            }
            taken.len()
        }

        fn add(&self, queue: &GarbageQueue, object: u64) {
            self.objects.borrow_mut().insert(object);
            queue.add(&[object]);
        }
    }

    /// 100,000 objects were added in an order of their own, before and while they are collected.
    #[test]
    fn many_objects_are_collected_without_walking_over_earlier_rounds_again() {
        for rounds_beside in [0, 1] {
            let (list, queue) = (List::default(), GarbageQueue::default());
            for n in 0..OBJECTS {
                list.add(&queue, n * 77_773 % OBJECTS);
                if n % OF_A_ROUND as u64 == 0 {
                    (0..rounds_beside).for_each(|_| assert!(list.round(&queue) > 0));
                }
            }
            while list.round(&queue) > 0 {}
            assert!(list.objects.borrow().is_empty());
            assert!(list.walked.get() <= 5 * OBJECTS as usize, "{} were walked over", list.walked.get());
        }
    }

    #[test]
    fn a_list_of_a_former_process_is_read_to_its_end() {
        let (list, queue) = (List::default(), GarbageQueue::unread());
        list.objects.borrow_mut().extend(0..OBJECTS);
        while list.round(&queue) > 0 {}
        assert!(list.objects.borrow().is_empty());
        assert!(list.walked.get() <= 2 * OBJECTS as usize, "{} were walked over", list.walked.get());
    }

    #[test]
    fn a_list_that_cannot_be_read_is_read_again() {
        let queue = GarbageQueue::unread();
        let failed = queue.take(1, |_, _| Err(esker::Error::Internal("planted".into())));
        assert!(failed.is_err());
        assert_eq!(queue.take(1, |from, _| Ok(vec![from, from + 1])).expect("a reading"), [0]);
        queue.forget(0..10);
        assert_eq!(queue.take(1, |_, _| panic!("the end was seen")).expect("nothing"), [0; 0]);
    }
}
