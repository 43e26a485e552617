//! Errors of experiments.

use std::fmt;

/// Why a run ended.
#[derive(Debug)]
pub enum ExperimentError {
    /// The database or one of its parts failed, or a file could not be written.
    Esker(esker::Error),
    /// A subject gave a wrong answer, so its numbers would mean nothing.
    WrongAnswer(String),
    /// A table or a plot could not be written.
    Output(std::io::Error),
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExperimentError::Esker(error) => error.fmt(f),
            ExperimentError::WrongAnswer(detail) => write!(f, "a wrong answer was measured: {detail}"),
            ExperimentError::Output(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExperimentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExperimentError::Esker(error) => Some(error),
            ExperimentError::Output(error) => Some(error),
            ExperimentError::WrongAnswer(_) => None,
        }
    }
}

impl From<esker::Error> for ExperimentError {
    fn from(error: esker::Error) -> ExperimentError {
        ExperimentError::Esker(error)
    }
}

impl From<std::io::Error> for ExperimentError {
    fn from(error: std::io::Error) -> ExperimentError {
        ExperimentError::Output(error)
    }
}

/// What experiments return.
pub type Result<T> = std::result::Result<T, ExperimentError>;
