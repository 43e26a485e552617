//! Explanation of writes: what becomes of a byte that is put, as measured over the database's life.

use super::text::{bytes, count, time};
use super::{Explanation, Figure, Step};
use crate::Result;
use crate::handle::Keyspace;
use esker_engine::amplification::{self, Amplification};
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_options::Durability;
use esker_strategy::write_control::WriteState;
use esker_view::SuperVersion;

impl Keyspace {
    /// What a put costs now and later: whether it is admitted, its record in the log, the memtable that takes
    /// it, and the bytes that flushes and compactions wrote for each byte that was put, beside what the model
    /// expects of the strategy. Writes nothing.
    ///
    /// # Errors
    /// `Closed`; `NotFound` if the keyspace was dropped.
    pub fn explain_put(&self) -> Result<Explanation> {
        let store = self.store();
        store.check_open()?;
        self.state().check_living()?;
        Ok(explain(store, self.state()))
    }
}

fn explain(store: &Store, keyspace: &KeyspaceState) -> Explanation {
    let view = keyspace.view.load();
    let user_bytes = amplification::user_bytes(store, keyspace);
    let told = amplification::amplification(store, keyspace, &view, user_bytes);
    let costs = super::model::costs_of(store, keyspace, &view.tree.version);
    let expected = costs.map(|costs| costs.write_amplification);
    let name = keyspace.name().escape_debug().to_string();
    let mut root = Step::new(format!("put in keyspace {name}"), "");
    if let Some(measured) = told.write() {
        root.add_beside(Figure::WriteAmplification, measured, expected);
    }
    root.steps.push(admission_step(store, keyspace));
    root.steps.push(log_step(store));
    root.steps.push(memtable_step(store, keyspace, &view));
    root.steps.extend(told.causes.iter().map(|cause| {
        let written = cause.written_bytes + cause.blob_bytes;
        let mut step = Step::new(format!("later, {}", cause.cause), "");
        if let Some(share) = told.over_user_bytes(written) {
            step.add_beside(Figure::WriteAmplification, share, None);
        }
        step.add(Figure::WrittenBytes, written);
        step.add(Figure::Jobs, cause.jobs);
        step.add(Figure::Time, cause.busy.as_nanos() as u64);
        step
    }));
    let conclusion = conclusion(&told, expected, &keyspace.options().strategy.to_string());
    Explanation { root, conclusion }
}

fn admission_step(store: &Store, keyspace: &KeyspaceState) -> Step {
    let stalls = esker_engine::write::write_control::stall_report::stalls(store);
    let own = stalls.keyspaces.into_iter().find(|stall| stall.name == *keyspace.name());
    let told = match own.map(|stall| stall.state) {
        _ if store.writing.is_none() => "refused: the database was opened for reading only".to_owned(),
        Some(WriteState::Slowed { bytes_per_second }) => {
            format!("slowed to {} a second; explain stall says why", bytes(bytes_per_second))
        }
        Some(WriteState::Stopped) => "stopped once the memtable is full; explain stall says why".to_owned(),
        _ => "at once".to_owned(),
    };
    Step::new("admission", told)
}

fn log_step(store: &Store) -> Step {
    let survives = match store.durability {
        Durability::None => "none: the log is skipped, and a crash loses what was not flushed",
        Durability::Process => "a copy into a mapped segment, which survives the end of the process",
        Durability::Power => {
            "a copy into a mapped segment, and a flush of the device, shared by writers that wait"
        }
    };
    let mut step = Step::new("log", survives);
    if let Some(writing) = &store.writing {
        let counters = writing.log.counters();
        step.add(Figure::MappedBytes, writing.log.mapped_bytes());
        step.add(Figure::LogFlushes, counters.flushes);
    }
    step
}

fn memtable_step(store: &Store, keyspace: &KeyspaceState, view: &SuperVersion) -> Step {
    let limit = keyspace.options().write_buffer_bytes.unwrap_or(store.memory.write_buffer_bytes);
    let active = &view.active.memtable;
    let told = match view.sealed.len() {
        0 => format!("{} entries", count(active.len())),
        sealed => {
            format!("{} entries, and {sealed} sealed before it wait for the flush", count(active.len()))
        }
    };
    Step::new("memtable", told)
        .with(Figure::MemoryBytes, active.payload_bytes())
        .with(Figure::LimitBytes, limit)
}

fn conclusion(told: &Amplification, expected: Option<f64>, strategy: &str) -> String {
    let Some(measured) = told.write() else {
        return "Nothing was put since writes are counted.".to_owned();
    };
    let written = |cause: &&amplification::CauseInfo| cause.written_bytes + cause.blob_bytes;
    let Some(most) = told.causes.iter().max_by_key(written).filter(|cause| written(cause) > 0) else {
        return "Nothing was flushed yet: so far a put costs its log record and its place in the memtable."
            .to_owned();
    };
    let share = 100.0 * written(&most) as f64 / (told.written_bytes() as f64).max(1.0);
    let mut text = format!(
        "Each byte put was written {measured:.2} times to tables and blob files, {share:.0} % of it by {}, in {} of background work.",
        most.cause,
        time(told.causes.iter().map(|cause| cause.busy.as_nanos() as f64).sum())
    );
    match expected {
        Some(expected) if measured > 1.5 * expected => text.push_str(&format!(
            " The model expects {expected:.2} of the strategy {strategy} at this size: the tree grew, or is being migrated."
        )),
        Some(expected) => text.push_str(&format!(
            " The model expects {expected:.2} of the strategy {strategy} at this size; esker advise looks for a cheaper one."
        )),
        None => {}
    }
    text
}
