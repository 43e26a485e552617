//! The prompt as a reader: each read is a line.

use super::prompt::Prompt;
use crate::failure::Failure;
use std::io::{self, Read};

/// TypedLines that are typed at the prompt.
pub(super) struct TypedLines {
    prompt: Prompt,
    line: Vec<u8>,
    at: usize,
}

impl TypedLines {
    pub(super) fn new(names: Vec<String>) -> Result<TypedLines, Failure> {
        Ok(TypedLines { prompt: Prompt::new(names)?, line: Vec::new(), at: 0 })
    }
}

impl Read for TypedLines {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() {
            let typed = self
                .prompt
                .line("esker> ")
                .map_err(|failure| io::Error::other(failure.message().to_owned()))?;
            let Some(typed) = typed else { return Ok(0) };
            (self.line, self.at) = (format!("{typed}\n").into_bytes(), 0);
        }
        let left = &self.line[self.at..];
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}
