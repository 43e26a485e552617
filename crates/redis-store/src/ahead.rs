//! Records that were looked up together before the commands that want them: one multi-get for a group.

use esker::Value;

/// Looked up records, in the order in which they will be asked for.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    keys: Vec<Vec<u8>>,
    found: Vec<Option<Value>>,
    next: usize,
}

impl Ahead {
    /// Forgets all, and takes the keys of records that are to be looked up.
    pub(crate) fn begin(&mut self, keys: impl Iterator<Item = Vec<u8>>) {
        self.clear();
        self.keys.extend(keys);
    }

    /// The keys of the records.
    pub(crate) fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    /// Takes what the lookup found, in the order of the keys.
    pub(crate) fn found(&mut self, found: Vec<Option<Value>>) {
        self.found = found;
    }

    /// Whether there is nothing more.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.found.len()
    }

    /// What was found for a key, once. Those before it are passed over: their commands did not want them.
    pub(crate) fn take(&mut self, record_key: &[u8]) -> Option<Option<Value>> {
        let rest = self.keys.get(self.next..self.found.len())?;
        let place = self.next + rest.iter().position(|key| key == record_key)?;
        self.next = place + 1;
        Some(self.found[place].take())
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.found.clear();
        self.next = 0;
    }
}
