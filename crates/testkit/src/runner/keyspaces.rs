//! Keyspaces are created, dropped and renamed, and get other options.

use super::{Mark, Runner};
use crate::options::{Chosen, KEYSPACE};
use crate::{Failure, Outcome, SPACES, ensure};
use esker::{Error, Keyspace, KeyspaceOptions};
use std::collections::BTreeMap;

impl Runner {
    pub(crate) fn create(&mut self, space: u8) -> Outcome<Keyspace> {
        let space = usize::from(space);
        if let Some(keyspace) = &self.spaces[space] {
            return Ok(keyspace.clone());
        }
        let options = self.plan.spaces[space].apply(KEYSPACE, KeyspaceOptions::default());
        self.mark(Mark::Changing, space);
        let keyspace = self.db()?.keyspace_with(SPACES[space], options.clone())?;
        self.mark(Mark::Created, space);
        self.spaces[space] = Some(keyspace.clone());
        self.space_options[space] = Some(options);
        Ok(keyspace)
    }

    /// Drops a keyspace. What was opened before reads on, everything else is refused.
    pub(super) fn drop_keyspace(&mut self, space: usize) -> Outcome {
        let Some(keyspace) = self.spaces[space].take() else {
            let missing = self.db()?.drop_keyspace(SPACES[space]);
            ensure!(matches!(missing, Err(Error::NotFound(_))), "dropping what is not there: {missing:?}");
            return Ok(());
        };
        if space == 0 {
            let refused = self.db()?.drop_keyspace(SPACES[0]);
            ensure!(matches!(refused, Err(Error::InvalidArgument(_))), "dropping the default: {refused:?}");
            self.spaces[0] = Some(keyspace);
            return Ok(());
        }
        // What they know of it goes by its name.
        self.transactions.clear();
        let before = self.oracle.content_at(self.now()?).swap_remove(space);
        let open = keyspace.iter();
        let mut batch = self.db()?.batch();
        batch.put(self.db()?.default_keyspace(), b"half of a batch", b"");
        batch.put(&keyspace, b"k", b"v");
        self.mark(Mark::Changing, space);
        self.mark(Mark::Begun, self.oracle.now() + 1);
        self.db()?.drop_keyspace(SPACES[space])?;
        let commit = self.oracle.drop_keyspace(space);
        self.space_options[space] = None;
        self.mark(Mark::Acknowledged, commit);
        self.mark(Mark::Powered, commit);
        self.mark(Mark::Gone, space);
        let after = open.map(|entry| entry.map(|(key, value)| (key.into_vec(), value.into_vec())));
        let after = after.collect::<esker::Result<BTreeMap<_, _>>>()?;
        ensure!(after == before, "an open range over a dropped keyspace shows something else");
        let answers = [
            keyspace.get(b"k").err(),
            keyspace.put(b"k", b"v").err(),
            keyspace.flush().err(),
            keyspace.update_options(|options| options).err(),
            keyspace.at(&self.db()?.snapshot()).get(b"k").err(),
            self.db()?.write(&batch).err(),
        ];
        for (call, answer) in answers.iter().enumerate() {
            let named = matches!(answer, Some(Error::NotFound(text)) if text.contains(SPACES[space]));
            ensure!(named, "call {call} on a dropped keyspace: {answer:?}");
        }
        Ok(())
    }

    pub(super) fn rename_keyspace(&mut self, from: usize, to: usize) -> Outcome {
        self.transactions.clear();
        let renamed =
            |runner: &Runner| Ok::<_, Failure>(runner.db()?.rename_keyspace(SPACES[from], SPACES[to]));
        let Some(keyspace) = self.spaces[from].clone() else {
            let missing = renamed(self)?;
            ensure!(matches!(missing, Err(Error::NotFound(_))), "renaming what is not there: {missing:?}");
            return Ok(());
        };
        if from != 0 && from == to {
            return Ok(renamed(self)??);
        }
        if from == 0 || self.spaces[to].is_some() {
            let refused = renamed(self)?;
            ensure!(
                matches!(refused, Err(Error::InvalidArgument(_))),
                "renaming {from} to {to}: {refused:?}"
            );
            return Ok(());
        }
        self.mark(Mark::Changing, from);
        self.mark(Mark::Changing, to);
        self.mark(Mark::Begun, self.oracle.now() + 1);
        renamed(self)??;
        let commit = self.oracle.rename_keyspace(from, to);
        self.mark(Mark::Acknowledged, commit);
        self.mark(Mark::Powered, commit);
        self.mark(Mark::Gone, from);
        self.mark(Mark::Created, to);
        ensure!(&*keyspace.name() == SPACES[to], "a handle is called {:?} after a rename", keyspace.name());
        self.spaces.swap(from, to);
        self.space_options.swap(from, to);
        Ok(())
    }

    pub(super) fn set_options(&mut self, space: usize, chosen: &Chosen) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else { return Ok(()) };
        // Where time passes by itself, nothing may expire by itself.
        let chosen = match self.clock {
            Some(_) => chosen.clone(),
            None => chosen.clone().with(KEYSPACE, "default ttl", "none"),
        };
        let mut options = chosen.apply(KEYSPACE, KeyspaceOptions::default());
        // There may be operands of the operator, so it stays.
        if let Some(operator) = keyspace.options().operator().cloned() {
            if options.operator() != Some(&operator) {
                let refused = keyspace.update_options(|_| options.clone());
                let is_named =
                    matches!(&refused, Err(Error::InvalidArgument(text)) if text.contains("operands"));
                ensure!(is_named, "an operator was replaced: {refused:?}");
            }
            options = options.merge_operator(operator);
        }
        match keyspace.update_options(|_| options.clone()) {
            // What was written so far may be too much for a promise, which is told with the numbers.
            Err(Error::InvalidArgument(text)) if text.contains("cannot be kept") => {
                options = options.set("max_space_amp", "none")?;
                keyspace.update_options(|_| options.clone())?;
            }
            outcome => drop(outcome?),
        }
        ensure!(keyspace.options() == options, "options that were set are not there");
        // Half of the changes of strategy go on; the others wait for the next change.
        let goes_on = chosen.describe(KEYSPACE).len().is_multiple_of(2);
        if goes_on {
            keyspace.resume_migration()?;
        } else {
            keyspace.pause_migration()?;
        }
        let migration = keyspace.migration();
        ensure!(migration.is_none_or(|migration| migration.is_paused != goes_on), "not told: {migration:?}");
        self.space_options[space] = Some(options);
        Ok(())
    }
}

pub(super) fn stored(options: &KeyspaceOptions) -> Vec<(String, String)> {
    options.named_values().into_iter().filter(|(name, _)| name != "compaction_filter").collect()
}
