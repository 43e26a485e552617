//! Statuses: what each error of the library is to a gRPC client.
//!
//! The code says what the client can do; the message is the library's sentence with its facts.

use esker::Error;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Most bytes of a message. It travels in a header, percent-encoded; peers accept 8 KiB of headers.
const MESSAGE_BYTES_MAX: usize = 2048;

/// The status of an error.
pub(crate) fn status_of(error: &Error) -> Status {
    let code = code_of(error);
    let message = shortened(error.to_string());
    match error {
        Error::WouldStall { retry_after, .. } => retry(code, message, *retry_after),
        _ => Status::new(code, message),
    }
}

fn code_of(error: &Error) -> Code {
    match error {
        Error::Corruption(_) | Error::Quarantined(_) => Code::DataLoss,
        Error::Full(_) => Code::ResourceExhausted,
        Error::Conflict(_) => Code::Aborted,
        Error::InvalidArgument(_) => Code::InvalidArgument,
        Error::NotFound(_) => Code::NotFound,
        Error::ReadOnly { .. } | Error::Merge(_) | Error::Locked { .. } => Code::FailedPrecondition,
        Error::WouldStall { .. } | Error::Closed => Code::Unavailable,
        Error::HistoryGone(_) => Code::OutOfRange,
        Error::Unsupported(_) => Code::Unimplemented,
        Error::Io(_) | Error::Internal(_) => Code::Internal,
        _ => Code::Unknown,
    }
}

/// A status that tells when to try again.
pub(crate) fn retry(code: Code, message: impl Into<String>, after: Duration) -> Status {
    Status::with_error_details(code, message, ErrorDetails::with_retry_info(Some(after)))
}

/// The status of a call that was given up at its deadline.
pub(crate) fn deadline_passed() -> Status {
    Status::deadline_exceeded("the call's deadline passed before it was done")
}

/// The status of calls that the end of the server interrupts.
pub(crate) fn stopping() -> Status {
    Status::unavailable("the server is stopping")
}

fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
        message.truncate(end);
        message.push_str("...");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_what_the_client_can_do() {
        let stall = Error::WouldStall { retry_after: Duration::from_millis(7), cause: "a flush".into() };
        for (error, code) in [
            (Error::corruption("000007.sst", 4096, "a checksum"), Code::DataLoss),
            (Error::Full("the disk".into()), Code::ResourceExhausted),
            (Error::invalid("a key"), Code::InvalidArgument),
            (Error::NotFound("a keyspace".into()), Code::NotFound),
            (Error::ReadOnly { cause: "a failed flush".into() }, Code::FailedPrecondition),
            (stall.clone(), Code::Unavailable),
            (Error::Closed, Code::Unavailable),
            (Error::Unsupported("a codec".into()), Code::Unimplemented),
            (Error::internal("a defect"), Code::Internal),
        ] {
            let status = status_of(&error);
            assert_eq!((status.code(), status.message()), (code, error.to_string().as_str()));
        }
        let details = status_of(&stall).get_error_details();
        let told = details.retry_info().and_then(|info| info.retry_delay);
        assert_eq!(told, Some(Duration::from_millis(7)));
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let status = status_of(&Error::invalid("\u{e9}".repeat(MESSAGE_BYTES_MAX)));
        assert!(status.message().len() <= MESSAGE_BYTES_MAX + 3);
        assert!(status.message().ends_with("\u{e9}..."));
    }
}
