//! The scripts that EVALSHA finds, of all threads: bounded by bytes, those used longest ago are forgotten.

use crate::lru::Lru;
use crate::script::{Script, Sha1Hex};

/// What a script takes beside its text.
const OVERHEAD_BYTES: usize = 256;

/// Scripts by SHA-1.
pub struct Scripts(Lru<Script>);

impl Scripts {
    /// Holds at most `capacity_bytes`, and at least one script.
    #[must_use]
    pub fn new(capacity_bytes: usize) -> Self {
        Self(Lru::new(capacity_bytes))
    }

    /// Adds a script.
    pub fn insert(&mut self, script: Script) {
        let bytes = script.body().len() + OVERHEAD_BYTES;
        self.0.insert(*script.sha(), script, bytes);
    }

    /// The script that `sha` names; letters may be in upper case.
    pub fn get(&mut self, sha: &[u8]) -> Option<Script> {
        self.0.get(&key(sha)?).cloned()
    }

    /// Whether there is such a script. Not a use of it.
    #[must_use]
    pub fn contains(&self, sha: &[u8]) -> bool {
        key(sha).is_some_and(|key| self.0.contains(&key))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of their texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// SCRIPT FLUSH.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

fn key(sha: &[u8]) -> Option<Sha1Hex> {
    let mut key: Sha1Hex = sha.try_into().ok()?;
    key.make_ascii_lowercase();
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::{OVERHEAD_BYTES, Scripts};
    use crate::script::Script;

    #[test]
    fn scripts_are_found_by_any_case_of_their_name() {
        let mut scripts = Scripts::new(2 * (8 + OVERHEAD_BYTES));
        let all: Vec<Script> =
            (1..4).map(|number| Script::new(format!("return {number}").as_bytes()).expect("valid")).collect();
        scripts.insert(all[0].clone());
        scripts.insert(all[1].clone());
        assert_eq!(scripts.get(&all[0].sha().to_ascii_uppercase()).expect("there").body(), b"return 1");
        scripts.insert(all[2].clone());
        assert!(!scripts.contains(all[1].sha()), "used longest ago");
        assert!(scripts.get(b"short").is_none());
        scripts.clear();
        assert!(scripts.is_empty() && scripts.bytes() == 0);
    }
}
