//! Key group: what was decided of the newer versions of the key that the cursor is on.

use crate::key_buffer::KeyBuffer;
use esker_base::{SeqNo, Tag};

/// The state of one key; all versions of a key pass one after the other.
#[derive(Debug, Default)]
pub(super) struct KeyGroup {
    pub(super) key: KeyBuffer,
    /// Whether there is a key.
    pub(super) is_begun: bool,
    /// The sequence number of the version that hides those below it in its stripe.
    pub(super) hidden_below: Option<SeqNo>,
    /// A tombstone that is elided unless an untouchable version follows.
    pub(super) withheld: Option<Tag>,
    pub(super) is_any_kept: bool,
    /// Whether an entry of it was the current one.
    pub(super) is_any_given: bool,
    pub(super) is_any_untouchable: bool,
    pub(super) is_any_zeroed: bool,
    /// Whether a tombstone was dropped under a newer version: versions kept after it were deleted.
    pub(super) has_hidden_delete: bool,
}

impl KeyGroup {
    /// Begins the versions of another key.
    #[inline]
    pub(super) fn begin(&mut self, key: &[u8]) {
        self.key.set(key);
        self.begin_with_its_key();
    }

    /// Begins a key that is set already.
    #[inline]
    pub(super) fn begin_with_its_key(&mut self) {
        self.is_begun = true;
        self.hidden_below = None;
        self.withheld = None;
        self.is_any_kept = false;
        self.is_any_given = false;
        self.is_any_untouchable = false;
        self.is_any_zeroed = false;
        self.has_hidden_delete = false;
    }
}
