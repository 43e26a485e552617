//! What a request may announce, before memory is asked for.

/// Longest line of a request: an inline command, or the text of a count. As in Redis.
pub const LONGEST_LINE: usize = 64 * 1024;

/// Arguments of a request before authentication. As in Redis.
pub const ARGUMENTS_BEFORE_AUTHENTICATION: u32 = 10;

/// Bytes of an argument before authentication. As in Redis.
pub const ARGUMENT_BYTES_BEFORE_AUTHENTICATION: u32 = 16 * 1024;

/// Limits of a connection's requests. They may change between two requests: by `AUTH`, by `CONFIG SET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of a request. The default is 1,048,576, which bounds the list of places at 8 MiB; Redis 7.0
    /// itself takes 2,147,483,647 and is bounded by memory.
    pub arguments: u32,
    /// Bytes of an argument, 512 MiB by default: `proto-max-bulk-len`.
    pub argument_bytes: u32,
    /// Bytes of a whole request, 1 GiB by default: `client-query-buffer-limit`. A request that announces
    /// more is refused before the bytes arrive.
    pub request_bytes: u32,
    /// Whether the client may run commands. If not, [`ARGUMENTS_BEFORE_AUTHENTICATION`] and
    /// [`ARGUMENT_BYTES_BEFORE_AUTHENTICATION`] hold as well, so that strangers cost no memory.
    pub authenticated: bool,
}

impl Default for Limits {
    /// Those of an authenticated client.
    fn default() -> Self {
        Self { arguments: 1 << 20, argument_bytes: 512 << 20, request_bytes: 1 << 30, authenticated: true }
    }
}
