//! Decode errors: why stored bytes cannot be used, before file and offset are known.

use esker_base::Error;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// They are not what was written.
    Damaged(String),
    /// A newer version wrote them.
    Unsupported(String),
}

impl DecodeError {
    #[cold]
    pub(crate) fn into_error(self, file: &Path, offset: u64) -> Error {
        match self {
            DecodeError::Damaged(detail) => Error::corruption(file, offset, detail),
            DecodeError::Unsupported(detail) => {
                Error::Unsupported(format!("{} at byte {offset}: {detail}", file.display()).into())
            }
        }
    }
}

#[cold]
pub(crate) fn damaged<T>(detail: impl Into<String>) -> Result<T, DecodeError> {
    Err(DecodeError::Damaged(detail.into()))
}

#[cold]
pub(crate) fn unsupported<T>(detail: impl Into<String>) -> Result<T, DecodeError> {
    Err(DecodeError::Unsupported(detail.into()))
}
