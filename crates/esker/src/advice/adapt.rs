//! Automatic tuning: keyspaces that follow advice by themselves.
//!
//! A keyspace with the option `adaptive_compaction` is observed in windows of that length. The compaction
//! worker checks at each of its steps, at least every ten seconds, whether a window has ended. Then it takes
//! the operations of the window and calls [`esker_model::advice::decide`]; on a positive decision it changes
//! strategy and filters by the same path as a user. Measurements of its life do not correct the formulas
//! here, because they span several strategies.
//!
//! * AD4: nothing is decided during a migration, and a window in which the design was changed otherwise does
//!   not count.
//! * AD5: a concurrent change of options by a user takes precedence.
//!
//! Only the option and the strategy are stored: after an open, observation begins anew.

use super::{AdviceRequest, question};
use esker_base::Result;
use esker_engine::background::migration;
use esker_engine::lifecycle::keyspace::change;
use esker_engine::state::adaptive_state::AdaptiveState;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_model::advice::{
    AdaptiveRules, Calibration, Decision, Design, Observation, Operations, Question, decide,
};
use esker_options::KeyspaceOptions;
use std::sync::Arc;
use std::time::Duration;

/// The tuning state of a keyspace; see [`crate::Keyspace::adaptation`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AdaptationInfo {
    /// The length of an observation window.
    pub window: Duration,
    /// Consecutive windows in which a change was worth it.
    pub agreeing_windows: u32,
    /// The number of consecutive windows required.
    pub needed_windows: u32,
    /// The rest of the pause after the last change.
    pub rest: Duration,
    /// Changes since the database was opened.
    pub changes: u64,
    /// The outcome of the last window, as a sentence; `None` before the first has ended.
    pub last: Option<String>,
}

/// Evaluates windows that have ended, and applies changes.
pub(crate) fn adapt(store: &Store, keyspaces: &[Arc<KeyspaceState>]) {
    for keyspace in keyspaces {
        let options = keyspace.options();
        let Some(window_ms) = options.adaptive_window_ms() else { continue };
        // Another worker thread is evaluating it.
        let Some(mut state) = keyspace.tuning.adapting.0.try_lock() else { continue };
        if let Err(error) = end_window(store, keyspace, &options, window_ms, &mut state) {
            let name = keyspace.name();
            tracing::warn!(keyspace = %name, %error, "the strategy could not be adapted");
        }
    }
}

fn end_window(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    options: &Arc<KeyspaceOptions>,
    window_ms: u64,
    state: &mut AdaptiveState,
) -> Result<()> {
    let now_ms = store.monotonic_ns() / 1_000_000;
    if state.window.is_some_and(|(began_ms, ..)| now_ms.saturating_sub(began_ms) < window_ms) {
        return Ok(());
    }
    let present = options.design(store.memory.write_buffer_bytes);
    let operations = question::operations(store, keyspace);
    let Some((_, before, design)) = state.window.replace((now_ms, operations, present)) else {
        return Ok(());
    };
    if design != present || options.switch.is_some() {
        state.history = state.history.interrupted();
        return Ok(());
    }
    let seen = operations.since(&before);
    let decision = match question_of_window(store, keyspace, seen) {
        None => Decision::Unknown,
        Some(question) => {
            let migration_bytes = |to: &Design| {
                migration::bytes_to_migrate(store, keyspace, options, adapted(options, to)) as f64
            };
            let seen = Observation { question: &question, now_ms, migration_bytes: &migration_bytes };
            let rules = AdaptiveRules::for_window(window_ms);
            let (decision, history) = decide(&seen, &state.history, &rules);
            if let Decision::Change(to, _) = decision {
                if change::replace_options(store, keyspace, options, adapted(options, &to))?.is_none() {
                    return Ok(());
                }
                state.changes += 1;
                state.window =
                    Some((now_ms, operations, keyspace.options().design(store.memory.write_buffer_bytes)));
                let name = keyspace.name();
                tracing::info!(keyspace = %name, from = %present.strategy, to = %to.strategy, "{decision}");
            }
            state.history = history;
            decision
        }
    };
    state.last = Some(decision);
    Ok(())
}

/// The operations of a window, as a question for the model; `None` if there is not enough data.
fn question_of_window(store: &Store, keyspace: &Arc<KeyspaceState>, seen: Operations) -> Option<Question> {
    let (question, _) =
        question::question_for(store, keyspace, &AdviceRequest::default(), seen, &seen).ok()?;
    let known = Calibration { cache_skew: question.known.cache_skew, ..Calibration::default() };
    Some(Question { known, ..question })
}

/// The tuning state of a keyspace, if it has the option.
pub(super) fn adaptation(store: &Store, keyspace: &KeyspaceState) -> Option<AdaptationInfo> {
    let window_ms = keyspace.options().adaptive_window_ms()?;
    let rules = AdaptiveRules::for_window(window_ms);
    let state = keyspace.tuning.adapting.0.lock();
    let now_ms = store.monotonic_ns() / 1_000_000;
    Some(AdaptationInfo {
        window: Duration::from_millis(window_ms),
        agreeing_windows: state.history.agreeing,
        needed_windows: rules.windows,
        rest: Duration::from_millis(state.history.rest_left_ms(now_ms, &rules)),
        changes: state.changes,
        last: state.last.map(|decision| decision.to_string()),
    })
}

/// These options with strategy and filters of a design; the write buffer stays.
fn adapted(options: &KeyspaceOptions, to: &Design) -> KeyspaceOptions {
    let changed = options.clone().with_design(to);
    let keeps_filter = options.filter.bits_per_key() == to.filter_bits_per_key;
    KeyspaceOptions {
        write_buffer_bytes: options.write_buffer_bytes,
        filter: if keeps_filter { options.filter } else { changed.filter },
        ..changed
    }
}

#[cfg(test)]
mod tests;
