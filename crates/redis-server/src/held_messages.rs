//! Messages that scripts and transactions publish: they are held until the batch of their command is written.
//!
//! Such a command may be executed once more, because it reads what is not in memory or needs more stripes.
//! What it has published until then is forgotten with what it has written, so that subscribers get each
//! message once, and none of a command that was undone.

use crate::clients::{Client, Message};
use crate::pubsub::{Post, PubSub};
use std::sync::Arc;

/// Bytes of the messages that one command may hold.
pub(crate) const MAX_HELD_BYTES: usize = 256 << 20;

/// What a message costs for each subscriber beside its bytes, which they share.
const BYTES_OF_A_SUBSCRIBER: usize = 32;

/// Messages in order, each with the subscriber that gets it.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    messages: Vec<(Arc<Client>, Arc<[u8]>)>,
    bytes: usize,
}

impl HeldMessages {
    /// Whether no further message may be held.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > MAX_HELD_BYTES
    }

    /// Holds a message of so many bytes for the subscribers that `address` calls its argument with. Returns
    /// for how many.
    pub(crate) fn hold(&mut self, bytes: usize, address: impl FnOnce(Post<'_>) -> usize) -> usize {
        let messages = &mut self.messages;
        let count = address(&mut |client, message| messages.push((Arc::clone(client), message)));
        if count > 0 {
            self.bytes += bytes + count * BYTES_OF_A_SUBSCRIBER;
        }
        count
    }

    /// Sends them.
    pub(crate) fn send(&mut self, pubsub: &PubSub) {
        if self.messages.is_empty() {
            return;
        }
        let held = std::mem::take(self).messages;
        pubsub.note_delivered(held.len());
        held.into_iter().for_each(|(client, message)| client.post(Message::Push(message)));
    }

    /// Forgets them.
    pub(crate) fn forget(&mut self) {
        if !self.messages.is_empty() {
            *self = Self::default();
        }
    }
}
