//! Where the current entry of a visible cursor is.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisiblePosition {
    Nowhere,
    OnCursor,
    /// The cursor is on it, and its value starts with an expiry time.
    OnExpiring,
    /// The cursor is on it, and its large value is in the buffer.
    Fetched,
    /// The cursor is on it, reached it backwards, and it is the only version of its key.
    Only,
    /// In the buffers. The cursor is on the last entry of an earlier key, or is exhausted backwards.
    Held,
    /// In the buffers; the cursor is on an older version, on a later key, or exhausted forwards.
    Merged,
}

impl VisiblePosition {
    /// Whether the current entry is in the buffers.
    #[inline]
    pub(super) fn is_buffered(self) -> bool {
        matches!(self, VisiblePosition::Held | VisiblePosition::Merged)
    }

    /// Whether the cursor is on the current entry and reached it forwards.
    #[inline(always)]
    pub(super) fn is_on_cursor(self) -> bool {
        matches!(self, VisiblePosition::OnCursor | VisiblePosition::OnExpiring | VisiblePosition::Fetched)
    }
}
