//! Times the operations of the document's table on one target.

use super::targets::{FillData, Target, must_find};
use crate::context::time_ns;
use crate::error::Result;
use crate::keys::scatter;
use esker::parts::env::SystemClock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    SequentialWrites,
    RandomWrites,
    BatchedWrites,
    SequentialReads,
    RandomReads,
    Contains,
    Iteration,
    Deletes,
    InsertAndRemove,
    Mixed,
}

impl Phase {
    /// In the order of the table, which is that in which [`measure`] gives their numbers.
    pub(super) const ALL: [Phase; 10] = [
        Phase::SequentialWrites,
        Phase::RandomWrites,
        Phase::BatchedWrites,
        Phase::SequentialReads,
        Phase::RandomReads,
        Phase::Contains,
        Phase::Iteration,
        Phase::Deletes,
        Phase::InsertAndRemove,
        Phase::Mixed,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Phase::SequentialWrites => "sequential writes",
            Phase::RandomWrites => "random writes",
            Phase::BatchedWrites => "batched writes",
            Phase::SequentialReads => "sequential reads",
            Phase::RandomReads => "random reads",
            Phase::Contains => "contains",
            Phase::Iteration => "iteration",
            Phase::Deletes => "deletes",
            Phase::InsertAndRemove => "insert+remove",
            Phase::Mixed => "mixed, 200 workers",
        }
    }

    /// Operations that count.
    pub(super) fn operations(self, entries: usize, mixed: usize) -> usize {
        match self {
            Phase::InsertAndRemove => 2 * entries,
            Phase::Mixed => mixed,
            _ => entries,
        }
    }
}

pub(super) const WORKERS: usize = 200;

/// What a target makes empty ones of, and what becomes of them.
pub(super) struct Factory<M, C> {
    pub(super) make: M,
    pub(super) close: C,
}

/// Millions of operations a second of each phase, and the same drained, in the order of [`Phase::ALL`]: for
/// writes until background work has caught up, for reads after it has. Missing figures are NaN.
pub(super) fn measure<'a, T: Target<'a>>(
    clock: &SystemClock,
    data: &'a FillData,
    mixed: usize,
    factory: &Factory<impl Fn() -> Result<T>, impl Fn(T) -> Result<()>>,
) -> Result<Vec<f64>> {
    let run = Run { clock, data, mixed };
    let mut found = [Timed { work_ns: f64::NAN, drained_ns: f64::NAN }; Phase::ALL.len()];
    let with = |work: &mut dyn FnMut(&T) -> Result<()>| -> Result<()> {
        let target = (factory.make)()?;
        work(&target)?;
        (factory.close)(target)
    };
    with(&mut |target| {
        found[Phase::SequentialWrites as usize] = run.writes(target, &data.ascending)?;
        if T::HAS_BACKGROUND {
            run.all_reads(target, |phase, ns| found[phase as usize].drained_ns = ns)?;
        }
        found[Phase::Deletes as usize] = run.deletes(target)?;
        Ok(())
    })?;
    with(&mut |target| {
        run.write(target, &data.ascending)?;
        run.all_reads(target, |phase, ns| found[phase as usize].work_ns = ns)
    })?;
    with(&mut |target| {
        found[Phase::RandomWrites as usize] = run.writes(target, &data.shuffled)?;
        Ok(())
    })?;
    if T::HAS_BATCHES {
        with(&mut |target| {
            found[Phase::BatchedWrites as usize] = run.batched(target)?;
            Ok(())
        })?;
    }
    with(&mut |target| {
        found[Phase::InsertAndRemove as usize] = run.insert_and_remove(target)?;
        Ok(())
    })?;
    with(&mut |target| {
        run.write(target, &data.shuffled)?;
        target.drain()?;
        found[Phase::Mixed as usize] = run.mixed(target)?;
        Ok(())
    })?;
    let rates = Phase::ALL.into_iter().flat_map(|phase| {
        let rate = |ns: f64| phase.operations(data.count(), mixed) as f64 * 1e3 / ns;
        let Timed { work_ns, drained_ns } = found[phase as usize];
        [rate(work_ns), if T::HAS_BACKGROUND { rate(drained_ns) } else { f64::NAN }]
    });
    Ok(rates.collect())
}

/// Nanoseconds until the last operation was acknowledged, and until background work had caught up; of reads,
/// those before it had and after.
#[derive(Clone, Copy)]
struct Timed {
    work_ns: f64,
    drained_ns: f64,
}

struct Run<'a, 'c> {
    clock: &'c SystemClock,
    data: &'a FillData,
    mixed: usize,
}

/// What a worker does to an entry.
enum Operation<E> {
    Get(u32),
    Insert(E),
    Remove(u32),
}

impl<'a> Run<'a, '_> {
    fn timed<T: Target<'a>>(&self, target: &T, work: impl FnOnce() -> Result<()>) -> Result<Timed> {
        let (work_ns, done) = time_ns(self.clock, work);
        done?;
        let (drain_ns, drained) = time_ns(self.clock, || target.drain());
        drained?;
        Ok(Timed { work_ns, drained_ns: work_ns + drain_ns })
    }

    /// Inserts entries, untimed.
    fn write<T: Target<'a>>(&self, target: &T, order: &[u32]) -> Result<()> {
        order.iter().try_for_each(|&number| target.insert(target.prepare(number)))
    }

    fn writes<T: Target<'a>>(&self, target: &T, order: &[u32]) -> Result<Timed> {
        let entries: Vec<T::Entry> = order.iter().map(|&number| target.prepare(number)).collect();
        self.timed(target, || entries.into_iter().try_for_each(|entry| target.insert(entry)))
    }

    fn batched<T: Target<'a>>(&self, target: &T) -> Result<Timed> {
        let entries: Vec<T::Entry> =
            self.data.ascending.iter().map(|&number| target.prepare(number)).collect();
        let timed = self.timed(target, || target.insert_many(entries))?;
        must_find("a walk after batched writes", self.data.count(), target.walk()?)?;
        Ok(timed)
    }

    /// Everything that reads, with the nanoseconds of each.
    fn all_reads<T: Target<'a>>(&self, target: &T, mut note: impl FnMut(Phase, f64)) -> Result<()> {
        let FillData { ascending, shuffled, .. } = self.data;
        note(Phase::SequentialReads, self.reads(ascending, "sequential reads", |number| target.get(number))?);
        note(Phase::RandomReads, self.reads(shuffled, "random reads", |number| target.get(number))?);
        note(Phase::Contains, self.reads(shuffled, "contains", |number| target.contains(number))?);
        let (walk_ns, found) = time_ns(self.clock, || target.walk());
        must_find("iteration", self.data.count(), found?)?;
        note(Phase::Iteration, walk_ns);
        Ok(())
    }

    fn reads(&self, order: &[u32], what: &str, read: impl Fn(u32) -> Result<bool>) -> Result<f64> {
        let (read_ns, found) = time_ns(self.clock, || {
            order
                .iter()
                .try_fold(0, |found, &number| -> Result<usize> { Ok(found + usize::from(read(number)?)) })
        });
        must_find(what, order.len(), found?)?;
        Ok(read_ns)
    }

    fn deletes<T: Target<'a>>(&self, target: &T) -> Result<Timed> {
        let order = &self.data.ascending;
        let timed = self.timed(target, || order.iter().try_for_each(|&number| target.remove(number)))?;
        must_find("a walk after all was deleted", 0, target.walk()?)?;
        Ok(timed)
    }

    fn insert_and_remove<T: Target<'a>>(&self, target: &T) -> Result<Timed> {
        let order = &self.data.shuffled;
        let entries: Vec<(u32, T::Entry)> =
            order.iter().map(|&number| (number, target.prepare(number))).collect();
        let timed = self.timed(target, || {
            entries.into_iter().try_for_each(|(number, entry)| {
                target.insert(entry)?;
                target.remove(number)
            })
        })?;
        must_find("a walk after all was inserted and removed", 0, target.walk()?)?;
        Ok(timed)
    }

    /// About half of the operations are gets, a quarter inserts, a quarter removals, of random entries. One
    /// entry in ten is only read, and must be found: inserting it again would not do, because crossbeam's map
    /// removes an entry before it inserts its successor, and a reader may come in between.
    fn mixed<T: Target<'a>>(&self, target: &T) -> Result<Timed> {
        let entries = self.data.count() as u64;
        let of_worker = |worker: usize| -> Vec<Operation<T::Entry>> {
            let each = (self.mixed / WORKERS) as u64;
            (0..each)
                .map(|at| {
                    let random = scatter(worker as u64 * each + at);
                    let number = ((random >> 8) % entries) as u32;
                    match random % 4 {
                        0 if !is_only_read(number) => Operation::Insert(target.prepare(number)),
                        1 if !is_only_read(number) => Operation::Remove(number),
                        _ => Operation::Get(number),
                    }
                })
                .collect()
        };
        let scripts: Vec<_> = (0..WORKERS).map(of_worker).collect();
        let mut wrong = 0;
        let timed = self.timed(target, || {
            wrong = std::thread::scope(|scope| {
                let workers: Vec<_> =
                    scripts.into_iter().map(|script| scope.spawn(move || work(target, script))).collect();
                workers
                    .into_iter()
                    .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                    .sum::<Result<usize>>()
            })?;
            Ok(())
        })?;
        must_find("wrong answers of mixed work", 0, wrong)?;
        Ok(timed)
    }
}

fn is_only_read(number: u32) -> bool {
    number.is_multiple_of(10)
}

/// Does what the script says, and counts answers that cannot be.
fn work<'a, T: Target<'a>>(target: &T, script: Vec<Operation<T::Entry>>) -> Result<usize> {
    let mut wrong = 0;
    for operation in script {
        match operation {
            Operation::Insert(entry) => target.insert(entry)?,
            Operation::Remove(number) => target.remove(number)?,
            Operation::Get(number) => wrong += usize::from(!target.get(number)? && is_only_read(number)),
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_in_the_order_of_their_numbers() {
        for (at, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, at, "{}", phase.name());
        }
    }
}
