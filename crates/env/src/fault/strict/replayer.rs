//! Trace replayer: steps through a trace and takes crash images.

use super::content::Content;
use super::crash::{Crash, survive};
use super::disk::{Disk, InodeId};
use super::event::Event;
use super::{StrictFs, StrictOptions, before};
use std::sync::Arc;

/// Steps through the trace of a [`StrictFs`].
///
/// A step costs as much as the event; an image costs a few references per file and a copy of the torn parts.
///
/// ```
/// use esker_env::fault::{Crash, StrictFs};
/// use esker_env::{FileSystem, OpenMode};
///
/// let fs = StrictFs::new();
/// let file = fs.open("/log".as_ref(), OpenMode::CreateNew)?;
/// fs.sync_dir("/".as_ref())?;
/// file.write_at(b"promised", 0)?;
/// file.sync_data()?;
/// fs.mark(1);
///
/// let mut replayer = fs.replayer();
/// loop {
///     let image = replayer.image(Crash::PowerAllLost);
///     if replayer.marks() == [1] {
///         assert_eq!(image.file_len("/log".as_ref())?, Some(8));
///     }
///     if replayer.step().is_none() {
///         break;
///     }
/// }
/// # Ok::<(), esker_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Replayer {
    disk: Disk,
    events: Arc<[Event]>,
    position: usize,
    before_last: Option<(InodeId, Arc<Content>)>,
    marks: Vec<u64>,
    options: StrictOptions,
    boots: u64,
}

impl Replayer {
    pub(super) fn new(base: Disk, events: Arc<[Event]>, options: StrictOptions, boots: u64) -> Replayer {
        Replayer { disk: base, events, position: 0, before_last: None, marks: Vec::new(), options, boots }
    }

    /// Events replayed so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Replays the next event and returns it; `None` at the end.
    pub fn step(&mut self) -> Option<&Event> {
        let event = self.events.get(self.position)?;
        self.before_last = before(&self.disk, &event.change);
        self.disk.apply(&event.change);
        self.marks.extend(event.mark());
        self.position += 1;
        Some(event)
    }

    /// Replays up to the first `position` events.
    ///
    /// # Panics
    /// If that is past the end of the trace, or has been passed already.
    pub fn advance_to(&mut self, position: usize) {
        let (now, end) = (self.position, self.events.len());
        assert!((now..=end).contains(&position), "cut {position} of a trace of {end} events, {now} replayed");
        while self.position < position {
            self.step();
        }
    }

    /// The event that was replayed last.
    pub fn last_event(&self) -> Option<&Event> {
        self.position.checked_sub(1).and_then(|last| self.events.get(last))
    }

    /// The marks passed so far, oldest first.
    pub fn marks(&self) -> &[u64] {
        &self.marks
    }

    /// What is left if the machine or the process crashes at this moment.
    pub fn image(&self, crash: Crash) -> StrictFs {
        let disk = survive(&self.disk, self.before_last.as_ref(), crash);
        StrictFs::of(disk, self.options.clone(), self.boots + u64::from(crash.is_power_loss()))
    }
}
