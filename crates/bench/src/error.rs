//! Errors of a benchmark run.

use crate::settings::Workload;
use std::fmt;

/// Why a run ended without numbers.
#[derive(Debug)]
pub enum BenchError {
    /// The database failed.
    Database(esker::Error),
    /// The settings are invalid, or do not fit the stored data.
    Settings(String),
    /// The database returned a wrong answer.
    WrongAnswer {
        /// The workload.
        workload: Workload,
        /// Expected and found.
        detail: String,
    },
    /// Something was above its bound; all else was right.
    OutOfBounds(String),
    /// The report could not be written, or a thread could not be started.
    Io(std::io::Error),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Database(error) => error.fmt(f),
            BenchError::Settings(reason) | BenchError::OutOfBounds(reason) => f.write_str(reason),
            BenchError::WrongAnswer { workload, detail } => {
                write!(f, "{workload} was answered wrongly: {detail}")
            }
            BenchError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BenchError::Database(error) => Some(error),
            BenchError::Io(error) => Some(error),
            BenchError::Settings(_) | BenchError::OutOfBounds(_) | BenchError::WrongAnswer { .. } => None,
        }
    }
}

impl From<esker::Error> for BenchError {
    fn from(error: esker::Error) -> BenchError {
        BenchError::Database(error)
    }
}

impl From<std::io::Error> for BenchError {
    fn from(error: std::io::Error) -> BenchError {
        BenchError::Io(error)
    }
}
