//! The follower of the change stream catches up.

use super::{Mark, Runner};
use crate::follower::Follower;
use crate::options::DATABASE;
use crate::oracle::difference;
use crate::script::Plan;
use crate::{Outcome, ensure};
use esker::Durability;

impl Runner {
    /// Lets the follower catch up, and compares it with what the database must contain.
    pub(crate) fn follow(&mut self, anew: bool, durability: Durability, acknowledge: bool) -> Outcome {
        let (now, db) = (self.now()?, self.db()?.clone());
        let mut follower = match self.follower.take() {
            Some(follower) => follower,
            None => {
                let follower = Follower::start(&db)?;
                self.mark(Mark::Followed, 0);
                follower
            }
        };
        let in_time = follower.follow(&db, anew, durability)?;
        ensure!(in_time || keeps_little(&self.plan), "history was let go of below the limit");
        if !in_time && db.metrics().read_only_cause.is_some() {
            self.follower = Some(follower);
            return Ok(());
        }
        if durability == Durability::Power && in_time {
            self.mark(Mark::Powered, now.commit);
        }
        if acknowledge {
            follower.acknowledge(&db)?;
            self.mark(Mark::Powered, now.commit);
            self.mark(Mark::Followed, follower.acknowledged.len() - 1);
        }
        let copy = follower.copy();
        let found = copy.without_blurred(&db, copy.content(&db, now.time_ms)?)?;
        let expected = copy.without_blurred(&db, self.oracle.content_at(now))?;
        ensure!(found == expected, "what follows shows at {now:?}: {}", difference(&found, &expected));
        self.follower = Some(follower);
        Ok(())
    }
}

/// Whether the change history may be let go of before it is read.
pub(crate) fn keeps_little(plan: &Plan) -> bool {
    !plan.database.describe(DATABASE).contains("change history 1 GiB")
}
