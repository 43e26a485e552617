//! Event queue: passes events to the listeners of the database, on a thread of its own.
//!
//! # Invariants
//! * EV1. A listener is called on the listener thread only, which holds no lock of the store and does no
//!   other work. So a listener may call the database, also for what waits for background work.
//! * EV2. An event is queued by the thread that made it happen, while it holds the lock that orders what the
//!   event reports: files and keyspaces under the manifest's, stalls under the keyspace's `write_control`,
//!   errors under the scheduler's; the begin and the end of a job by the job. So listeners get the events of
//!   a keyspace in the order in which they happened.
//! * EV3. No thread of the store waits for a listener, except in a close, which holds no lock then. The
//!   queue's lock is the innermost; nothing is locked or called under it. A full queue drops the event,
//!   counts it, and reports the loss where it occurred.
//! * EV4. After a close no listener is called, unless the close was called by a listener: then the events
//!   that are queued follow when that listener returns.
//!
//! Without listeners there is no queue and no thread, and no event is made.
//!
//! # Rejected
//! Calling listeners on the threads of background work, as RocksDB does: a slow listener slows flushes and
//! then writers, and one that waits for background work waits for itself. A queue without bound: a listener
//! that hangs would take all memory.

use esker_base::Result;
use esker_env::Env;
use esker_options::{Event, EventListener, ListenerList};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, ThreadId};

/// The most queued events: some minutes of a busy database at 50 jobs a second with three events each, and
/// about 4 MiB at 250 bytes an event.
const MAX_QUEUED: usize = 1 << 14;

/// The events of a database.
#[derive(Debug)]
pub struct Events {
    /// `None` without listeners.
    queue: Option<Arc<EventQueue>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    is_read_only_told: AtomicBool,
}

/// Figures about the listeners of a database since its open; all 0 without listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerMetrics {
    /// Events that were passed to the listeners.
    pub delivered: u64,
    /// Events that wait.
    pub queued: usize,
    /// Events dropped because the listeners were too slow.
    pub lost: u64,
    /// Calls of listeners that panicked.
    pub panics: u64,
}

#[derive(Debug)]
struct EventQueue {
    capacity: usize,
    state: Mutex<QueueState>,
    /// Signalled by a new event, by the close, and by the end of the thread.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    events: VecDeque<Event>,
    /// Events lost after the last queued one.
    untold_losses: u64,
    is_closed: bool,
    has_ended: bool,
    thread: Option<ThreadId>,
    /// Its `queued` is computed.
    totals: ListenerMetrics,
}

impl Events {
    /// Starts the thread of these listeners, if there are any.
    ///
    /// # Errors
    /// `Io` if the system refuses a thread.
    pub fn start(env: &Env, listeners: ListenerList) -> Result<Events> {
        Events::with_capacity(env, listeners, MAX_QUEUED)
    }

    fn with_capacity(env: &Env, listeners: ListenerList, capacity: usize) -> Result<Events> {
        let (mut queue, mut thread) = (None, None);
        if !listeners.0.is_empty() {
            let own = Arc::new(EventQueue { capacity, state: Mutex::default(), changed: Condvar::new() });
            let shared = Arc::clone(&own);
            thread = Some(env.spawn("esker-events", move || shared.deliver(listeners.0))?);
            queue = Some(own);
        }
        Ok(Events { queue, thread: Mutex::new(thread), is_read_only_told: AtomicBool::new(false) })
    }

    /// Whether there are listeners: only then is it worthwhile to prepare an event.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Queues an event, which is made only if there are listeners.
    #[inline]
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        if let Some(queue) = &self.queue {
            queue.push(event());
        }
    }

    /// Queues the event that the database takes no more writes, once.
    pub(crate) fn emit_read_only(&self, cause: &Arc<str>) {
        if self.is_on() && !self.is_read_only_told.swap(true, Ordering::Relaxed) {
            self.emit(|| Event::TurnedReadOnly { cause: Arc::clone(cause) });
        }
    }

    /// Accepts no more events and waits until the queued ones are delivered; a listener that calls this does
    /// not wait. The caller holds no lock (EV3).
    pub fn finish(&self) {
        let Some(queue) = &self.queue else { return };
        if queue.close_and_wait()
            && let Some(thread) = self.thread.lock().take()
        {
            let _ = thread.join();
        }
    }

    /// Figures since the open.
    pub fn metrics(&self) -> ListenerMetrics {
        let Some(queue) = &self.queue else { return ListenerMetrics::default() };
        let state = queue.state.lock();
        ListenerMetrics { queued: state.events.len(), ..state.totals }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // An open that failed, or a store that was closed before.
        if let Some(queue) = &self.queue {
            queue.state.lock().is_closed = true;
            queue.changed.notify_all();
        }
    }
}

impl EventQueue {
    fn push(&self, event: Event) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        if state.events.len() >= self.capacity {
            state.untold_losses += 1;
            state.totals.lost += 1;
            return;
        }
        let count = std::mem::take(&mut state.untold_losses);
        if count > 0 {
            state.events.push_back(Event::EventsLost { count });
        }
        state.events.push_back(event);
        drop(state);
        self.changed.notify_all();
    }

    /// The thread of the listeners.
    fn deliver(self: Arc<Self>, listeners: Vec<Arc<dyn EventListener>>) {
        self.state.lock().thread = Some(std::thread::current().id());
        let ended = EndMark(&self);
        while let Some(event) = self.next() {
            for listener in &listeners {
                self.call(&**listener, &event);
            }
        }
        // They may hold handles of the database, and a closing thread waits for the mark.
        drop(listeners);
        drop(ended);
    }

    fn call(&self, listener: &dyn EventListener, event: &Event) {
        if catch_unwind(AssertUnwindSafe(|| listener.on_event(event))).is_err() {
            self.state.lock().totals.panics += 1;
            tracing::error!(?event, "an event listener panicked");
        }
    }

    /// Waits for the next event; `None` when the queue is closed and empty.
    fn next(&self) -> Option<Event> {
        let mut state = self.state.lock();
        loop {
            if let Some(event) = state.events.pop_front() {
                state.totals.delivered += 1;
                return Some(event);
            }
            let count = std::mem::take(&mut state.untold_losses);
            if count > 0 {
                return Some(Event::EventsLost { count });
            }
            if state.is_closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Closes the queue and waits for the end of its thread; `false` on that thread, which cannot wait.
    fn close_and_wait(&self) -> bool {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.changed.notify_all();
        if state.thread == Some(std::thread::current().id()) {
            return false;
        }
        while !state.has_ended {
            self.changed.wait(&mut state);
        }
        true
    }
}

/// Reports the end of the thread, also if it panics.
struct EndMark<'a>(&'a EventQueue);

impl Drop for EndMark<'_> {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn lost(event: &Event) -> Option<u64> {
        match event {
            Event::EventsLost { count } => Some(*count),
            _ => None,
        }
    }

    /// EV3: the queue is bounded, its users do not wait, and the loss is reported where it occurred.
    #[test]
    fn events_beyond_the_bound_are_dropped_counted_and_reported() {
        let (entered, entries) = channel();
        let (leave, gate) = channel::<()>();
        let (seen, events) = channel();
        let gate = Mutex::new(gate);
        let listener = move |event: &Event| {
            seen.send(lost(event)).unwrap();
            if matches!(event, Event::TurnedReadOnly { .. }) {
                entered.send(()).unwrap();
                gate.lock().recv().unwrap();
            }
        };
        let listeners = ListenerList(vec![Arc::new(listener)]);
        let queue = Events::with_capacity(&Env::real(), listeners, 2).unwrap();
        let cause: Arc<str> = "the test".into();
        let event = || Event::TurnedReadOnly { cause: Arc::clone(&cause) };
        queue.emit(event);
        entries.recv().unwrap();
        for _ in 0..5 {
            queue.emit(event);
        }
        let metrics = queue.metrics();
        assert_eq!((metrics.delivered, metrics.queued, metrics.lost), (1, 2, 3));
        leave.send(()).unwrap();
        entries.recv().unwrap();
        // One is queued, so there is room for the report and one more.
        queue.emit(event);
        for _ in 0..3 {
            leave.send(()).unwrap();
        }
        queue.finish();
        assert_eq!(events.iter().collect::<Vec<_>>(), [None, None, None, Some(3), None]);
        queue.emit(|| unreachable_event(&cause));
        assert_eq!(queue.metrics().queued, 0, "EV4");
    }

    fn unreachable_event(cause: &Arc<str>) -> Event {
        Event::TurnedReadOnly { cause: Arc::clone(cause) }
    }

    #[test]
    fn a_loss_without_a_later_event_is_reported_too() {
        let (leave, gate) = channel::<()>();
        let (entered, entries) = channel();
        let (seen, events) = channel();
        let gate = Mutex::new(gate);
        let listener = move |event: &Event| {
            seen.send(lost(event)).unwrap();
            entered.send(()).unwrap();
            let _ = gate.lock().recv();
        };
        let queue = Events::with_capacity(&Env::real(), ListenerList(vec![Arc::new(listener)]), 1).unwrap();
        let event = || Event::TurnedReadOnly { cause: "the test".into() };
        queue.emit(event);
        entries.recv().unwrap();
        for _ in 0..3 {
            queue.emit(event);
        }
        drop(leave);
        queue.finish();
        assert_eq!(events.iter().collect::<Vec<_>>(), [None, None, Some(2)]);
    }

    #[test]
    fn without_listeners_no_event_is_made() {
        let events = Events::start(&Env::real(), ListenerList::default()).unwrap();
        events.emit(|| unreachable!("an event is made"));
        events.emit_read_only(&"no".into());
        events.finish();
        assert_eq!(events.metrics(), ListenerMetrics::default());
    }
}
