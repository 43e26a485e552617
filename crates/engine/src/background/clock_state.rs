//! Clock state: tells when the wall clock and the database time are far apart (TM1, TM5 in
//! [`esker_view::time`]).

use crate::state::store::Store;
use esker_options::{ClockState, Event};
use esker_view::time::{MAX_LEAP, from_ms};
use std::time::Duration;

/// A wall clock that is less behind is no news: clocks are corrected by seconds, and set for summer time by
/// software that confuses it with the time of the machine.
const BEHIND: Duration = Duration::from_secs(3600);

/// Logs and reports a change of the state. Called at the open, and periodically by the compaction worker.
pub(crate) fn note_clock(store: &Store) {
    let skew_ms = store.time.skew_ms();
    let state = state_of(skew_ms);
    if std::mem::replace(&mut *store.clock_state.lock(), state) == state {
        return;
    }
    let time_ms = store.time.last_ms();
    let (wall, time) = (from_ms(time_ms.saturating_add_signed(skew_ms)), from_ms(time_ms));
    if state == ClockState::Followed {
        tracing::info!("{state}");
    } else {
        tracing::warn!(skew_s = skew_ms / 1000, "{state}");
    }
    store.events.emit(|| Event::ClockState { state, wall, time });
}

/// The state at this skew.
pub fn state_of(skew_ms: i64) -> ClockState {
    match skew_ms {
        ahead if ahead >= MAX_LEAP.as_millis() as i64 => ClockState::Ahead,
        behind if behind <= -(BEHIND.as_millis() as i64) => ClockState::Behind,
        _ => ClockState::Followed,
    }
}
