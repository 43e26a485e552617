//! Why a rule is refused, in the words of Redis.

use std::fmt;

/// What is wrong with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// A command or category does not exist.
    Unknown,
    /// No rule has this form, or a pattern contains white space or a NUL byte.
    Syntax,
    /// A key pattern after `~*`, which allows every key already.
    KeyAfterAll,
    /// A channel pattern after `&*`, which allows every channel already.
    ChannelAfterAll,
    /// The password to be removed is not there.
    NoSuchPassword,
    /// A password's digest has not 64 small hexadecimal digits.
    BadDigest,
    /// A first argument is given to a subcommand.
    FirstArgumentOfSubcommand,
}

impl fmt::Display for RuleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::KeyAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have \
                 any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::ChannelAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not \
                 have any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Self::BadDigest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal \
                 characters"
            }
            Self::FirstArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
        })
    }
}

impl std::error::Error for RuleError {}
