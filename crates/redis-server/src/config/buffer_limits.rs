//! `client-output-buffer-limit`: bytes that may wait to be sent to a client, by its class.

use esker_resp::memory_size::parse_memory_size;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a client is, for the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum ClientClass {
    /// All others, monitors among them.
    Normal = 0,
    /// Replicas, of which there are none.
    Replica = 1,
    /// Subscribers.
    PubSub = 2,
}

impl ClientClass {
    fn named(name: &str) -> Option<Self> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match () {
            () if is("normal") => Some(Self::Normal),
            () if is("slave") || is("replica") => Some(Self::Replica),
            () if is("pubsub") => Some(Self::PubSub),
            () => None,
        }
    }
}

/// The limit of a class; zero bytes are no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferLimit {
    /// Bytes with which a client is disconnected at once.
    pub(crate) hard_bytes: u64,
    /// Bytes with which a client is disconnected once it has had them for longer than `soft_s`.
    pub(crate) soft_bytes: u64,
    pub(crate) soft_s: u64,
}

/// The limits of all classes. As text they are `CLASS HARD SOFT SECONDS`, one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferLimits([BufferLimit; 3]);

impl BufferLimits {
    /// These limits but for the classes that `text` names.
    ///
    /// # Errors
    /// Why the text is not taken, in the words of Redis.
    pub(super) fn changed_by(mut self, text: &[u8]) -> Result<Self, &'static str> {
        let text = String::from_utf8_lossy(text);
        let words: Vec<&str> = if text.is_empty() { Vec::new() } else { text.split(' ').collect() };
        if !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.");
        }
        for limit in words.chunks_exact(4) {
            let class = ClientClass::named(limit[0])
                .ok_or("Invalid client class specified in buffer limit configuration.")?;
            let bytes = |word: &str| parse_memory_size(word.as_bytes());
            let (Some(hard_bytes), Some(soft_bytes), Ok(soft_s)) =
                (bytes(limit[1]), bytes(limit[2]), limit[3].parse::<u32>())
            else {
                return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.");
            };
            self.0[class as usize] = BufferLimit { hard_bytes, soft_bytes, soft_s: soft_s.into() };
        }
        Ok(self)
    }
}

impl fmt::Display for BufferLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, limit) in ["normal", " slave", " pubsub"].into_iter().zip(&self.0) {
            write!(f, "{name} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_s)?;
        }
        Ok(())
    }
}

/// The limits that act, read for every reply.
#[derive(Debug, Default)]
pub(crate) struct OutputLimits([[AtomicU64; 3]; 3]);

impl OutputLimits {
    /// Lets the limits of a text act that CONFIG GET prints.
    pub(crate) fn set(&self, text: &[u8]) {
        let limits = BufferLimits::default().changed_by(text).unwrap_or_default();
        for (fields, limit) in self.0.iter().zip(&limits.0) {
            for (field, value) in fields.iter().zip([limit.hard_bytes, limit.soft_bytes, limit.soft_s]) {
                field.store(value, Ordering::Relaxed);
            }
        }
    }

    /// The limit of a class.
    pub(crate) fn of(&self, class: ClientClass) -> BufferLimit {
        let [hard_bytes, soft_bytes, soft_s] =
            [0, 1, 2].map(|field: usize| self.0[class as usize][field].load(Ordering::Relaxed));
        BufferLimit { hard_bytes, soft_bytes, soft_s }
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferLimit, BufferLimits, ClientClass, OutputLimits};

    #[test]
    fn classes_that_are_not_named_keep_their_limits() {
        let first =
            BufferLimits::default().changed_by(b"normal 1kb 2 3 replica 4 5 6 PUBSUB 7 8 9").expect("right");
        assert_eq!(first.to_string(), "normal 1024 2 3 slave 4 5 6 pubsub 7 8 9");
        let second = first.changed_by(b"slave 1 1 1").expect("right");
        assert_eq!(second.to_string(), "normal 1024 2 3 slave 1 1 1 pubsub 7 8 9");
        assert_eq!(second.changed_by(b"").expect("nothing"), second);
        let acting = OutputLimits::default();
        acting.set(second.to_string().as_bytes());
        assert_eq!(acting.of(ClientClass::PubSub), BufferLimit { hard_bytes: 7, soft_bytes: 8, soft_s: 9 });
    }

    #[test]
    fn mistakes_are_told_as_by_redis() {
        for (text, start) in [
            ("wrong number", "Wrong number"),
            ("master 1 1 1", "Invalid client class"),
            ("normal 10mbs 1 1", "Error in hard"),
            ("normal 1 1 1 pubsub 1 1 60s", "Error in hard"),
            ("normal 1 1 -1", "Error in hard"),
        ] {
            let error = BufferLimits::default().changed_by(text.as_bytes()).expect_err(text);
            assert!(error.starts_with(start), "{text}: {error}");
        }
    }
}
