//! Asynchronous reads by `io_uring`.
//!
//! # One ring, no thread
//! The ring has a submission queue, a completion queue, and a table of slots, one for each request in flight;
//! a lock guards all three. Submitting puts entries into the queue and notifies the kernel, under the lock:
//! one system call for all requests of a batch. That call copies pages that are in the page cache.
//!
//! No thread polls for completions. One of the waiters is the *reaper*: it waits in the kernel, without the
//! lock, for at least one completion, then collects all available ones and stores each in its slot. A waiter
//! whose request is done returns; when the reaper's own request is done, another waiter takes over. So no
//! waiter waits for another's request only because no thread collects completions (RQ3):
//!
//! * UR1. While there are waiters, there is a reaper or one is being chosen: the reaper resigns and wakes all
//!   waiters under the lock.
//! * UR2. The reaper enters the kernel only if its own request was not done, as seen under the lock that it
//!   then releases, and submits the entries that the kernel has not taken yet. If the kernel does not take
//!   all of them, the call returns at once and is repeated; otherwise a completion is outstanding or in the
//!   queue, and the call returns with it.
//!
//! A slot owns file and buffer until the kernel is done with them (RQ1), even without a waiter. Closing the
//! ring first waits for everything outstanding.
//!
//! # Rejected
//! A ring per thread: cursors move between threads, and rings cost locked memory. A thread that reaps: two
//! context switches for each batch.

use super::ReadRequest;
use crate::aligned::{AlignedBuffer, aligned_range};
use crate::fork::ProcessMark;
use esker_base::{Error, Result};
use io_uring::{EnterFlags, IoUring, Probe, opcode, types};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;

/// Requests in flight at once; further ones are plain reads. Enough for eight multi-gets of 32 keys.
const ENTRIES: u32 = 256;

pub(super) struct Uring {
    ring: IoUring,
    state: Mutex<RingState>,
    changed: Condvar,
    process: ProcessMark,
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring").field("outstanding", &self.state.lock().outstanding).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct RingState {
    slots: Vec<RingSlot>,
    free: Vec<usize>,
    outstanding: usize,
    /// Whether a waiter waits in the kernel.
    has_reaper: bool,
}

enum RingSlot {
    Free,
    /// The kernel has it. `is_wanted` until the request is abandoned.
    UnderWay {
        transfer: Transfer,
        is_wanted: bool,
    },
    /// The kernel is done with it, with this result.
    Done {
        transfer: Transfer,
        result: i32,
    },
}

/// A request and the memory that the kernel fills for it.
struct Transfer {
    request: ReadRequest,
    /// For direct reads: the device blocks around the requested bytes, and where those begin in them.
    around: Option<(AlignedBuffer, usize)>,
}

impl Transfer {
    /// The bytes, given the kernel's result; by a plain read if that is not all of them (RQ2).
    fn finish(mut self, result: i32) -> Result<Vec<u8>> {
        let wanted = self.request.buffer.len();
        let read = usize::try_from(result).unwrap_or(0);
        match &mut self.around {
            None if read == wanted => Ok(self.request.buffer),
            Some((around, before)) if read >= *before + wanted => {
                self.request.buffer.copy_from_slice(&around.take(read)[*before..*before + wanted]);
                Ok(self.request.buffer)
            }
            _ => self.request.run(),
        }
    }
}

#[derive(Debug)]
pub(super) struct RingRead {
    state: RingReadState,
}

#[derive(Debug)]
enum RingReadState {
    InSlot { ring: Arc<Uring>, slot: usize },
    Here(Option<Result<Vec<u8>>>),
}

impl Uring {
    pub(super) fn new() -> Result<Arc<Uring>> {
        let ring = IoUring::new(ENTRIES)
            .map_err(|error| Error::Unsupported(format!("io_uring is not to be had here: {error}").into()))?;
        // Rings came with Linux 5.1, this kind of read with 5.6.
        let mut probe = Probe::new();
        let is_known = ring.submitter().register_probe(&mut probe).is_ok();
        if !is_known || !probe.is_supported(opcode::Read::CODE) {
            return Err(Error::Unsupported("the io_uring of this kernel cannot read".into()));
        }
        Ok(Arc::new(Uring {
            ring,
            state: Mutex::default(),
            changed: Condvar::new(),
            process: ProcessMark::here(),
        }))
    }

    pub(super) fn submit(self: &Arc<Self>, requests: Vec<ReadRequest>) -> Vec<RingRead> {
        if self.process.is_inherited() {
            // The ring's memory is shared with the parent, which would miss its completions.
            let run = |request: ReadRequest| RingReadState::Here(Some(request.run()));
            return requests.into_iter().map(|request| RingRead { state: run(request) }).collect();
        }
        let mut state = self.state.lock();
        let begun: Vec<_> = requests.into_iter().map(|request| self.begin(&mut state, request)).collect();
        // If the kernel refuses now it may take them with the next call; a waiter retries.
        let _ = self.ring.submit();
        drop(state);
        // Requests without a slot are read now, without the lock, while the others are in flight.
        let pending = begun.into_iter().map(|begun| match begun {
            Ok(slot) => RingReadState::InSlot { ring: Arc::clone(self), slot },
            Err(request) => RingReadState::Here(Some(request.run())),
        });
        pending.map(|state| RingRead { state }).collect()
    }

    /// Queues a request; returns it if the queue is full or the file has no descriptor.
    fn begin(&self, state: &mut RingState, request: ReadRequest) -> Result<usize, ReadRequest> {
        let Some(descriptor) = request.file.descriptor().filter(|_| state.outstanding < ENTRIES as usize)
        else {
            return Err(request);
        };
        let Ok(len) = u32::try_from(request.buffer.len()) else { return Err(request) };
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push(RingSlot::Free);
            state.slots.len() - 1
        });
        let (mut transfer, mut offset, mut len) = (Transfer { request, around: None }, 0, len);
        let memory = if descriptor.is_direct {
            let range = aligned_range(transfer.request.offset, transfer.request.buffer.len());
            let before = (transfer.request.offset - range.start) as usize;
            (offset, len) = (range.start, (range.end - range.start) as u32);
            let (around, _) = transfer.around.insert((AlignedBuffer::new(), before));
            around.take(len as usize).as_mut_ptr()
        } else {
            offset += transfer.request.offset;
            transfer.request.buffer.as_mut_ptr()
        };
        let read = opcode::Read::new(types::Fd(descriptor.fd), memory, len).offset(offset);
        let entry = read.build().user_data(slot as u64);
        state.slots[slot] = RingSlot::UnderWay { transfer, is_wanted: true };
        // SAFETY: the lock is held, so no other thread uses the submission queue. The memory belongs to the
        // slot, which keeps it and the file until the completion of this entry was taken (RQ1); moving the
        // slot does not move heap memory.
        if unsafe { self.ring.submission_shared().push(&entry) }.is_err() {
            let taken = std::mem::replace(&mut state.slots[slot], RingSlot::Free);
            state.free.push(slot);
            return match taken {
                RingSlot::UnderWay { transfer, .. } => Err(transfer.request),
                RingSlot::Free | RingSlot::Done { .. } => unreachable!("it was put there above"),
            };
        }
        state.outstanding += 1;
        Ok(slot)
    }

    fn reap(&self, state: &mut RingState) {
        // SAFETY: the lock is held, so no other thread uses the completion queue.
        for completion in unsafe { self.ring.completion_shared() } {
            let at = completion.user_data() as usize;
            let Some(slot) = state.slots.get_mut(at) else { continue };
            state.outstanding -= 1;
            match std::mem::replace(slot, RingSlot::Free) {
                RingSlot::UnderWay { transfer, is_wanted: true } => {
                    *slot = RingSlot::Done { transfer, result: completion.result() };
                }
                _ => state.free.push(at),
            }
        }
    }

    /// Entries that the kernel has not taken yet. The caller holds the lock.
    fn untaken(&self, _: &RingState) -> u32 {
        // SAFETY: the lock is held, so no other thread uses the submission queue.
        let queue = unsafe { self.ring.submission_shared() };
        u32::try_from(queue.len()).unwrap_or(u32::MAX)
    }

    /// Waits in the kernel for a completion, without the lock. This many entries are submitted first; the
    /// kernel waits only if it took all of them, so that it never waits for a request that it does not have
    /// (UR2).
    fn enter(&self, untaken: u32) {
        // SAFETY: no argument is passed. Whatever the result, the caller checks the queue next; an
        // interrupted call is repeated.
        let _ = unsafe { self.ring.submitter().enter::<()>(untaken, 1, EnterFlags::GETEVENTS.bits(), None) };
    }

    fn wait(&self, slot: usize) -> Result<Vec<u8>> {
        let mut state = self.state.lock();
        loop {
            if matches!(state.slots[slot], RingSlot::Done { .. }) {
                let RingSlot::Done { transfer, result } =
                    std::mem::replace(&mut state.slots[slot], RingSlot::Free)
                else {
                    unreachable!("looked at under the same lock")
                };
                state.free.push(slot);
                drop(state);
                return transfer.finish(result);
            }
            if state.has_reaper {
                if self.untaken(&state) > 0 {
                    let _ = self.ring.submit();
                }
                self.changed.wait(&mut state);
                continue;
            }
            // Completions may be available already, and entries that the kernel did not take yet must be
            // submitted (UR2).
            let _ = self.ring.submit();
            self.reap(&mut state);
            if matches!(state.slots[slot], RingSlot::Done { .. }) {
                self.changed.notify_all();
                continue;
            }
            state.has_reaper = true;
            let untaken = self.untaken(&state);
            drop(state);
            self.enter(untaken);
            state = self.state.lock();
            state.has_reaper = false;
            self.reap(&mut state);
            self.changed.notify_all();
        }
    }

    fn forget(&self, slot: usize) {
        let mut state = self.state.lock();
        match &mut state.slots[slot] {
            RingSlot::UnderWay { is_wanted, .. } => *is_wanted = false,
            RingSlot::Done { .. } => {
                state.slots[slot] = RingSlot::Free;
                state.free.push(slot);
            }
            RingSlot::Free => {}
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Every `PendingRead` holds the ring, so there are no waiters; outstanding requests were abandoned
        // (RQ1).
        let mut state = self.state.lock();
        while state.outstanding > 0 {
            let _ = self.ring.submit();
            self.enter(self.untaken(&state));
            self.reap(&mut state);
        }
    }
}

impl RingRead {
    pub(super) fn wait(mut self) -> Result<Vec<u8>> {
        match std::mem::replace(&mut self.state, RingReadState::Here(None)) {
            RingReadState::InSlot { ring, slot } => ring.wait(slot),
            RingReadState::Here(Some(outcome)) => outcome,
            RingReadState::Here(None) => Err(Error::internal("a read was waited for twice")),
        }
    }
}

impl Drop for RingRead {
    fn drop(&mut self) {
        if let RingReadState::InSlot { ring, slot } = &self.state {
            ring.forget(*slot);
        }
    }
}
