//! Everything in a database, for a comparison with the oracle.

use crate::{Content, Failure, Outcome, SPACES, ensure};
use esker::{Database, Snapshot};
use std::collections::BTreeMap;

/// Everything in a database, read forwards.
pub fn read_all(db: &Database, snapshot: Option<&Snapshot>) -> Outcome<Content> {
    let mut content = vec![BTreeMap::new(); SPACES.len()];
    for name in db.keyspaces() {
        let Some(space) = SPACES.iter().position(|known| *known == name) else {
            return Err(Failure::new(format!("there is a keyspace {name:?} that nobody created")));
        };
        let keyspace = db.open_keyspace(&name)?;
        let entries = match snapshot {
            Some(snapshot) => keyspace.at(snapshot).iter(),
            None => keyspace.iter(),
        };
        let mut last: Option<Vec<u8>> = None;
        for entry in entries {
            let (key, value) = entry?;
            let key = key.into_vec();
            ensure!(last.as_ref() < Some(&key), "keys out of order in {name}");
            last = Some(key.clone());
            content[space].insert(key, value.into_vec());
        }
    }
    Ok(content)
}
