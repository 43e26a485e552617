//! Makes a failing plan small.

use crate::script::{Op, Plan, Step};
use crate::{Outcome, SPACES};

/// Most runs of a plan that shrinking may take.
const MAX_RUNS: usize = 1_500;

/// The smallest plan found that still fails, and how it fails. Operations go first, by halves of what is
/// left, then edits of large batches, then options.
pub fn shrink(plan: &Plan, run: &dyn Fn(&Plan) -> Outcome<u64>) -> (Plan, String) {
    let failure = run(plan).err().map_or_else(String::new, |failure| failure.to_string());
    let mut shrinker = Shrinker { best: plan.clone(), failure, runs: 0, run };
    loop {
        let before = shrinker.best.clone();
        shrinker.fewer_operations();
        shrinker.fewer_edits();
        shrinker.plainer_options();
        if shrinker.best == before || shrinker.runs >= MAX_RUNS {
            return (shrinker.best, shrinker.failure);
        }
    }
}

struct Shrinker<'a> {
    best: Plan,
    failure: String,
    runs: usize,
    run: &'a dyn Fn(&Plan) -> Outcome<u64>,
}

impl Shrinker<'_> {
    /// Takes the candidate if it fails too.
    fn attempt(&mut self, candidate: Plan) -> bool {
        self.runs += 1;
        if self.runs > MAX_RUNS {
            return false;
        }
        match (self.run)(&candidate) {
            Ok(_) => false,
            Err(failure) => {
                self.failure = failure.to_string();
                self.best = candidate;
                true
            }
        }
    }

    fn fewer_operations(&mut self) {
        let mut piece = self.best.script.len().div_ceil(2);
        while piece > 0 {
            let mut at = 0;
            while at < self.best.script.len() {
                let end = (at + piece).min(self.best.script.len());
                let mut candidate = self.best.clone();
                candidate.script.drain(at..end);
                if !self.attempt(candidate) {
                    at = end;
                }
            }
            piece /= 2;
        }
    }

    fn fewer_edits(&mut self) {
        for at in 0..self.best.script.len() {
            while let Some(count) = edits_of(&self.best.script[at])
                && count > 1
            {
                let shorter = (0..count).any(|edit| {
                    let mut candidate = self.best.clone();
                    match &mut candidate.script[at] {
                        Op::Write { edits, .. } => drop(edits.remove(edit)),
                        Op::Join { edits, .. } => drop(edits.remove(edit)),
                        Op::InTransaction { step: Step::Cursor { steps, .. }, .. } => {
                            steps.remove(edit);
                        }
                        _ => {}
                    }
                    self.attempt(candidate)
                });
                if !shorter {
                    break;
                }
            }
        }
    }

    fn plainer_options(&mut self) {
        let database: Vec<_> = self.best.database.simpler().collect();
        for plainer in database {
            self.attempt(Plan { database: plainer, ..self.best.clone() });
        }
        for space in 0..SPACES.len() {
            let choices: Vec<_> = self.best.spaces[space].simpler().collect();
            for plainer in choices {
                let mut candidate = self.best.clone();
                candidate.spaces[space] = plainer;
                self.attempt(candidate);
            }
        }
    }
}

/// How many edits an operation has, if it has any.
fn edits_of(op: &Op) -> Option<usize> {
    match op {
        Op::Write { edits, .. } => Some(edits.len()),
        Op::Join { edits, .. } => Some(edits.len()),
        Op::InTransaction { step: Step::Cursor { steps, .. }, .. } => Some(steps.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, Generator};

    #[test]
    fn shrinking_keeps_the_needed_operation() {
        let plan = Generator::plan(1, 300);
        let needed = plan.script.iter().find(|op| matches!(op, Op::Write { .. })).cloned().unwrap();
        // Fails whenever the operation is there.
        let run =
            |plan: &Plan| if plan.script.contains(&needed) { Err(Failure::new("there")) } else { Ok(0) };
        let (shrunk, failure) = shrink(&plan, &run);
        assert_eq!((shrunk.script.as_slice(), failure.as_str()), ([needed.clone()].as_slice(), "there"));
        assert!(shrunk.database.simpler().next().is_none());
    }
}
