//! The error sweep: fails each call of a workload that changes the file system or reads from it, one in each
//! run, or one and all after it.
//!
//! The workload goes on after the failure. Every failure must be reported as an error about the disk, never
//! as a panic or as an error that blames the database or the data. After the disk is repaired and the
//! database reopened, everything acknowledged is there. A write that failed may be there or not: each key
//! holds its last acknowledged value or one whose write failed later. After a failed sync the sweep also cuts
//! power: then everything acknowledged as surviving that must be there.

use crate::events::{AtOpen, EventAudit};
use crate::oracle::{Content, brief};
use crate::runner::{DIR, Runner, read_all};
use crate::script::{Op, Plan};
use crate::{Failure, Outcome, SPACES, ensure};
use esker::parts::env::Env;
use esker::parts::env::fault::{Crash, Fault, FaultFs, Rule, StrictFs, When};
use esker::{Database, Error};
use guaranteed::{GuaranteedState, Possible};
use operations::step;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

mod guaranteed;
mod injections;
mod operations;

pub use injections::{FAULTS, Injection, Lasting, READ_FAULTS};

/// A write succeeds within so many attempts once the disk is repaired that had failed for long.
const RETRIES: u32 = 4;

/// Fails every `step`th call that an injection is for, each in a run of its own; returns the number of runs.
///
/// # Errors
/// The first run that went wrong, with the number of its call.
pub fn sweep(plan: &Plan, injection: &Injection, lasting: Lasting, step: usize) -> Outcome<u64> {
    let mut runs = 0;
    for number in (1..).step_by(step) {
        let when = match lasting {
            Lasting::Once => When::Nth(number),
            Lasting::FromNowOn => When::From(number),
        };
        let rule = Rule::new(injection.fault, when).path(injection.path);
        let rule = injection.operations.iter().fold(rule, |rule, operation| rule.on(*operation));
        let trial = Trial::new(plan, injection.fault, rule);
        let outcome = catch_unwind(AssertUnwindSafe(|| trial.run()));
        let outcome = outcome.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)));
        outcome.map_err(|failure| {
            failure.during(format_args!("{:?}, {lasting:?}, at call {number}", injection.fault))
        })?;
        if trial.faults.injected() == 0 {
            // The run has fewer calls.
            break;
        }
        runs += 1;
    }
    Ok(runs)
}

/// An open database, and the audit of its events.
struct Audited {
    db: Database,
    audit: EventAudit,
    at_open: AtOpen,
}

impl Audited {
    /// Closes the database and checks its events, whatever the outcome.
    fn close(&self) -> Outcome<esker::Result<()>> {
        let closed = self.db.close();
        self.audit.check(&self.db, &self.at_open).map_err(|failure| failure.during("the events"))?;
        Ok(closed)
    }
}

/// One run of the workload with one fault.
struct Trial<'a> {
    plan: &'a Plan,
    fault: Fault,
    strict: StrictFs,
    faults: FaultFs,
}

/// Accepts errors about the disk and errors that follow from them; anything else is a failure.
fn expect_sane(error: Error, fault: Fault) -> Outcome {
    let is_wrong_read =
        matches!(fault, Fault::FlippedBit { .. } | Fault::ZeroedSector { .. } | Fault::ShortRead { .. });
    match error {
        Error::Io(_) | Error::Full(_) | Error::ReadOnly { .. } | Error::WouldStall { .. } => Ok(()),
        Error::Corruption(_) if is_wrong_read => Ok(()),
        error => Err(Failure::new(format!("an error that does not blame the disk: {error}"))),
    }
}

impl<'a> Trial<'a> {
    fn new(plan: &'a Plan, fault: Fault, rule: Rule) -> Trial<'a> {
        let strict = StrictFs::new();
        let faults = FaultFs::over_strict(strict.clone());
        faults.add(rule);
        Trial { plan, fault, strict, faults }
    }

    fn env(&self) -> Env {
        Env::simulated(Arc::new(self.faults.clone()), self.plan.seed)
    }

    fn open(&self) -> esker::Result<Audited> {
        let audit = EventAudit::default();
        let db = Database::open_with(DIR, audit.watch(Runner::options(self.plan, self.env())))?;
        let at_open = EventAudit::at_open(&db)?;
        Ok(Audited { db, audit, at_open })
    }

    /// Opens the database. If one call fails in a run, the second attempt succeeds; if all fail from now on,
    /// the third does, after the disk was repaired.
    fn open_again(&self) -> Outcome<Audited> {
        for _ in 0..2 {
            match self.open() {
                Ok(open) => return Ok(open),
                Err(error) => expect_sane(error, self.fault)?,
            }
        }
        self.faults.heal();
        self.open().map_err(|error| Failure::from(error).during("an open of a repaired disk"))
    }

    fn run(&self) -> Outcome {
        let fault = self.fault;
        let mut open = self.open_again()?;
        let mut guaranteed = GuaranteedState::default();
        for op in &self.plan.script {
            if let Op::Reopen { .. } = op {
                match open.close()? {
                    Ok(()) => guaranteed.settle_all(),
                    Err(error) => {
                        guaranteed.reopen();
                        expect_sane(error, fault)?;
                    }
                }
                open = self.open_again()?;
            } else {
                let done = step(&open.db, &self.env(), op, &mut guaranteed);
                done.or_else(|error| expect_sane(error, fault))?;
            }
        }
        let happened = self.faults.injected();
        self.faults.heal();
        if happened > 0 {
            // After a lasting fault the first calls may still get the failure of background work that was not
            // tried again since.
            let attempts = if happened > 1 { RETRIES } else { 1 };
            let put = || open.db.default_keyspace().put(b"healed", b"yes");
            let healed = (1..attempts).fold(put(), |healed, _| healed.or_else(|_| put()));
            let excused = matches!(healed, Err(Error::ReadOnly { .. })) && !matches!(fault, Fault::Full);
            ensure!(healed.is_ok() || excused, "after healing, a write says {healed:?}");
            guaranteed.note(&[(0, b"healed".to_vec(), Some(b"yes".to_vec()))], healed.is_ok());
        }
        if open.close()?.is_ok() {
            guaranteed.settle_all();
        }
        drop(open);
        if fault == Fault::LostSync {
            let lost = self.strict.crash(Crash::PowerAllLost);
            let env = Env::simulated(Arc::new(lost), self.plan.seed);
            check(&Database::open_with(DIR, Runner::options(self.plan, env))?, &guaranteed.power)
                .map_err(|failure| failure.during("after a power cut"))?;
        }
        let open = self.open()?;
        check(&open.db, &guaranteed.process)?;
        ensure!(open.db.verify()?.is_clean(), "verify found damage");
        open.db.default_keyspace().put(b"more", b"1")?;
        open.close()??;
        Ok(())
    }
}

/// Checks that every key holds one of its possible values.
fn check(db: &Database, possible: &Possible) -> Outcome {
    let content: Content = read_all(db, None)?;
    for ((space, key), values) in possible {
        let found = content[*space].get(key);
        let fine = values.iter().any(|value| value.as_ref() == found);
        let shown: Vec<String> = values.iter().map(|value| brief(value.as_deref())).collect();
        let found = brief(found.map(Vec::as_slice));
        ensure!(fine, "{} in {} holds {found}, not one of {shown:?}", brief(Some(key)), SPACES[*space]);
    }
    let entries =
        content.iter().enumerate().flat_map(|(space, keys)| keys.keys().map(move |key| (space, key)));
    let stray = entries.into_iter().find(|(space, key)| !possible.contains_key(&(*space, (*key).clone())));
    ensure!(stray.is_none(), "a key is there that was never written: {stray:?}");
    Ok(())
}
