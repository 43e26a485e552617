//! Memory for loom: the same calls over modelled atomics, so that loom explores the structures themselves.
//!
//! Each word becomes an atomic when it is first written, by the writer. Loom reports a read of any kind that
//! is not ordered after the atomic was created, and this file one of a word that never was, so a node or
//! entry that is reached before it is complete is caught even where the real code reads with relaxed loads.
//!
//! A model that cannot fail proves nothing: a [`Mutant`] breaks the protocol in one place, and then
//! `tests/loom.rs` must find it.

use super::Site;
use esker_base::Result;
use loom::sync::atomic::{AtomicU32, Ordering};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::sync::OnceLock;

/// One deliberate defect. *References* are the words that lead to nodes and entries: root, child, value,
/// link; *counts* the first words of small nodes; *indexes* the words that map bytes to children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// References are published without release.
    RelaxedReference,
    /// Counts are published without release.
    RelaxedCount,
    /// Indexes are published without release.
    RelaxedIndex,
    /// References are loaded without acquire.
    RelaxedReferenceLoad,
    /// Counts are loaded without acquire.
    RelaxedCountLoad,
    /// Indexes are loaded without acquire.
    RelaxedIndexLoad,
    /// Words of nodes that readers already reach are written after the publication that should follow them.
    LatePut,
    /// Words of new nodes and entries are written after the publication that should follow them.
    LateInit,
}

thread_local! {
    /// Loom runs all threads of a model on one thread of the operating system.
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Runs the models that follow on this thread with this defect.
pub fn set_mutant(mutant: Option<Mutant>) {
    MUTANT.set(mutant);
}

fn is(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

fn publishing(site: Site) -> Ordering {
    let relaxed = match site {
        Site::Reference => Mutant::RelaxedReference,
        Site::Count => Mutant::RelaxedCount,
        Site::Index => Mutant::RelaxedIndex,
    };
    if is(relaxed) { Ordering::Relaxed } else { Ordering::Release }
}

fn loading(site: Site) -> Ordering {
    let relaxed = match site {
        Site::Reference => Mutant::RelaxedReferenceLoad,
        Site::Count => Mutant::RelaxedCountLoad,
        Site::Index => Mutant::RelaxedIndexLoad,
    };
    if is(relaxed) { Ordering::Relaxed } else { Ordering::Acquire }
}

#[derive(Debug, Default)]
pub(crate) struct Memory {
    words: Box<[OnceLock<AtomicU32>]>,
    bytes: Box<[UnsafeCell<u8>]>,
    /// Writes that a late mutant has delayed; the writer's.
    late: RefCell<Vec<(usize, u32)>>,
}

// SAFETY: loom runs one thread at a time; bytes are read only behind words that loom checks.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn reserve(bytes: usize) -> Result<Memory> {
        Ok(Memory {
            words: (0..bytes / 4).map(|_| OnceLock::new()).collect(),
            bytes: (0..bytes).map(|_| UnsafeCell::new(0xde)).collect(),
            late: RefCell::default(),
        })
    }

    pub(crate) fn stub(bytes: usize) -> Memory {
        Memory::reserve(bytes).expect("the model's memory is never refused")
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Nothing is recycled: atomics belong to one execution of a model.
    pub(crate) fn touched(&self) -> (usize, usize) {
        (0, 0)
    }

    pub(crate) fn retire(&mut self, _low: usize, _high: usize) {
        *self = Memory::default();
    }

    pub(crate) fn discard(&mut self) {}

    pub(crate) fn seal(&self) {}

    pub(crate) fn is_sealed(&self) -> bool {
        false
    }

    /// The model has no files.
    pub(crate) fn spill(&self, _low: usize, _high: usize, _file: &dyn esker_env::File) -> Result<bool> {
        Ok(false)
    }

    pub(crate) fn is_spilled(&self) -> bool {
        false
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        self.words[at].get().expect("a word was read before it was written")
    }

    fn write(&self, at: usize, value: u32) {
        let mut is_new = false;
        let word = self.words[at].get_or_init(|| {
            is_new = true;
            AtomicU32::new(value)
        });
        if !is_new {
            word.store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn init(&self, at: usize, value: u32) {
        assert!(self.words[at].get().is_none(), "word {at} was allocated twice");
        if is(Mutant::LateInit) { self.late.borrow_mut().push((at, value)) } else { self.write(at, value) }
    }

    pub(crate) fn put(&self, at: usize, value: u32) {
        if is(Mutant::LatePut) { self.late.borrow_mut().push((at, value)) } else { self.write(at, value) }
    }

    pub(crate) fn publish(&self, site: Site, at: usize, value: u32) {
        self.word(at).store(value, publishing(site));
        for (late, value) in self.late.take() {
            // An access lets the other threads run in between; the first write of a word does not.
            self.peek(at);
            self.write(late, value);
        }
    }

    pub(crate) fn load(&self, site: Site, at: usize) -> u32 {
        self.word(at).load(loading(site))
    }

    pub(crate) fn peek(&self, at: usize) -> u32 {
        self.word(at).load(Ordering::Relaxed)
    }

    pub(crate) fn view<const N: usize>(&self, at: usize) -> View<'_, N> {
        View { memory: self, at }
    }

    /// # Safety
    /// As for the real memory.
    pub(crate) unsafe fn write_bytes(&self, at: usize, from: &[u8]) {
        for (cell, &byte) in self.bytes[at..at + from.len()].iter().zip(from) {
            // SAFETY: loom runs one thread at a time, and the caller owns the range.
            unsafe { *cell.get() = byte };
        }
    }

    /// # Safety
    /// As for the real memory.
    pub(crate) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        let cells = &self.bytes[at..at + len];
        // SAFETY: a cell has the layout of its byte, and by the caller's contract nothing writes these any
        // more.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast::<u8>(), cells.len()) }
    }

    /// # Safety
    /// As for the real memory.
    pub(crate) unsafe fn words(&self, at: usize, count: usize) -> Vec<u32> {
        (at..at + count).map(|word| self.peek(word)).collect()
    }

    /// # Safety
    /// As for the real memory.
    pub(crate) unsafe fn numbers(&self, at: usize, count: usize) -> Vec<u64> {
        assert!(at.is_multiple_of(2));
        // SAFETY: the caller's contract, which is about the same words.
        let words = unsafe { self.words(at, 2 * count) };
        let number = |pair: &[u32; 2]| {
            let ([a, b, c, d], [e, f, g, h]) = (pair[0].to_ne_bytes(), pair[1].to_ne_bytes());
            u64::from_ne_bytes([a, b, c, d, e, f, g, h])
        };
        words.as_chunks::<2>().0.iter().map(number).collect()
    }

    pub(crate) fn prefetch(&self, _at: usize) {}

    pub(crate) fn prefetch_line(&self, _at: usize) {}

    pub(crate) fn prefetch_to_write(&self, _at_byte: usize) {}
}

/// Some adjacent words. Only those that are accessed need to exist.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, const N: usize> {
    memory: &'a Memory,
    at: usize,
}

impl<const N: usize> View<'_, N> {
    pub(crate) fn init(self, values: [u32; N]) {
        for (index, value) in values.into_iter().enumerate() {
            self.memory.init(self.at + index, value);
        }
    }

    pub(crate) fn load(self, site: Site, index: usize) -> u32 {
        assert!(index < N);
        self.memory.load(site, self.at + index)
    }

    pub(crate) fn peek(self, index: usize) -> u32 {
        assert!(index < N);
        self.memory.peek(self.at + index)
    }
}
