//! Existing tables at a change of options: what they keep until a compaction rewrites them.

use crate::state::keyspace::KeyspaceState;
use esker_options::KeyspaceOptions;
use std::fmt;

/// Existing tables that a change of options leaves as they are, each until a compaction rewrites it. Reads
/// serve both kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptTables {
    /// The changed options that hold for new tables only: of `index_type` a kind that is stored in tables.
    pub options: Vec<&'static str>,
    /// Tables that were written before the change; 0 if no such option was changed.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl KeptTables {
    /// The tables of a keyspace, if the change concerns them. O(tables).
    pub(super) fn of(
        keyspace: &KeyspaceState,
        before: &KeyspaceOptions,
        after: &KeyspaceOptions,
    ) -> KeptTables {
        let options = before.kept_by_tables(after);
        let view = keyspace.view.load();
        let parts = view.tree.version.parts().filter(|_| !options.is_empty());
        let (tables, bytes) =
            parts.fold((0, 0), |(tables, bytes), (.., part)| (tables + 1, bytes + part.bytes));
        KeptTables { options, tables, bytes }
    }

    /// Whether no table keeps anything.
    pub fn is_empty(&self) -> bool {
        self.tables == 0
    }
}

impl fmt::Display for KeptTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeptTables { options, tables, bytes } = self;
        if self.is_empty() {
            return f.write_str("no table keeps other options");
        }
        let (noun, verb, pronoun) =
            if *tables == 1 { ("table", "keeps its", "it is") } else { ("tables", "keep their", "they are") };
        write!(f, "{tables} {noun} of {bytes} bytes {verb} {} until {pronoun} merged", options.join(", "))
    }
}
