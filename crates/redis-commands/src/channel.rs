//! What a command does with the channels of publish and subscribe, and which of its arguments they are.

use std::ops::Range;

/// What a command does with its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// Argument 1 is a channel that receives a message.
    Publish,
    /// All arguments are channels to subscribe to.
    Subscribe,
    /// All arguments are patterns to subscribe to.
    SubscribePatterns,
    /// All arguments are channels or patterns that are left, which needs no permission.
    Unsubscribe,
}

impl Channels {
    /// The use that the command of a name makes of channels; none if it has none.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "publish" | "spublish" => Some(Self::Publish),
            "subscribe" | "ssubscribe" => Some(Self::Subscribe),
            "psubscribe" => Some(Self::SubscribePatterns),
            "unsubscribe" | "sunsubscribe" | "punsubscribe" => Some(Self::Unsubscribe),
            _ => None,
        }
    }

    /// The positions of channels among so many arguments, the command's name included.
    ///
    /// ```
    /// use esker_redis_commands::{Channels, find};
    /// assert_eq!(find(b"publish").unwrap().channels(), Some(Channels::Publish));
    /// assert_eq!(Channels::Publish.positions(3), 1..2);
    /// assert_eq!(find(b"get").unwrap().channels(), None);
    /// ```
    pub fn positions(self, arguments: usize) -> Range<usize> {
        let end = if self == Self::Publish { arguments.min(2) } else { arguments };
        1..end.max(1)
    }
}
