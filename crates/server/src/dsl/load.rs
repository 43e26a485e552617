//! The answer to `l "FILE"`: writes the file's pairs in batches.

use super::execute::{Executor, Progress};
use crate::load_file::{LoadFile, LoadFiles};
use esker_protocol::{Kind, ScalarRef, answer, pairs};
use std::io::Read;

/// Pairs of one batch: about half a megabyte of log, so that no batch blocks other writers for long.
const BATCH_PAIRS: u64 = 16 << 10;

#[derive(Debug)]
pub(super) struct Load {
    executor: Executor,
    file: LoadFile,
    path: String,
    pairs: u64,
    loaded: u64,
}

impl Load {
    /// Opens the file and checks its length, or says why it cannot be loaded.
    pub(super) fn new(executor: &Executor, files: &LoadFiles, path: &str) -> Result<Load, String> {
        let file = files.open(path)?;
        let pairs = pairs::count(file.len).map_err(|over| {
            let (path, pair, len) = (path.escape_debug(), pairs::PAIR_LEN, file.len);
            format!("'{path}' is no file of pairs: {len} bytes are {over} more than a multiple of {pair}")
        })?;
        Ok(Load { executor: executor.clone(), file, path: path.to_owned(), pairs, loaded: 0 })
    }

    pub(super) fn advance(&mut self, out: &mut Vec<u8>) -> Progress {
        if self.loaded == self.pairs {
            answer::ok(out);
            return Progress::Finished;
        }
        match self.batch() {
            Ok(()) => Progress::More,
            Err(reason) => {
                let (path, loaded, pairs) = (self.path.escape_debug(), self.loaded, self.pairs);
                answer::error(format_args!("'{path}': {reason}; {loaded} of {pairs} pairs were loaded"), out);
                Progress::Finished
            }
        }
    }

    fn batch(&mut self) -> Result<(), String> {
        let count = BATCH_PAIRS.min(self.pairs - self.loaded);
        let mut bytes = vec![0; count as usize * pairs::PAIR_LEN];
        self.file.file.read_exact(&mut bytes).map_err(|error| format!("cannot read it: {error}"))?;
        let mut batch = self.executor.database().batch();
        let (keyspace, layout) = self.executor.keyspace(Kind::Integer);
        for (key, value) in pairs::decode(&bytes) {
            let (key, value) = (ScalarRef::Integer(key.into()), ScalarRef::Integer(value.into()));
            batch.put(keyspace, layout.key_bytes(key), layout.value_bytes(value));
        }
        self.executor.database().write(&batch).map_err(|error| error.to_string())?;
        self.loaded += count;
        Ok(())
    }
}
