//! The two copies of a segment header.

use crate::scan::Window;
use crate::segment::{HEADER_OFFSETS, SEGMENT_HEADER_LEN};
use crate::segment::{SegmentHeader, SegmentHeaderFault};
use esker_base::Result;

pub(crate) const HEADERS_END: u64 = HEADER_OFFSETS[1] + SEGMENT_HEADER_LEN as u64;

/// The two copies of a segment's header, each valid or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderCopies(pub [Result<SegmentHeader, SegmentHeaderFault>; 2]);

impl HeaderCopies {
    pub(crate) fn read(window: &mut Window) -> Result<HeaderCopies> {
        let page = window.bytes(0, HEADERS_END)?;
        let copy = |offset: u64| SegmentHeader::decode(page.get(offset as usize..).unwrap_or_default());
        Ok(HeaderCopies(HEADER_OFFSETS.map(copy)))
    }

    /// The copy in force: the valid one with the greater log id, because after recycling the other one may
    /// still describe the earlier life.
    pub fn valid(&self) -> Option<&SegmentHeader> {
        // `max_by_key` takes the last of equals; equal ids mean equal headers.
        self.0.iter().filter_map(|copy| copy.as_ref().ok()).max_by_key(|header| header.log_id)
    }

    /// Whether both copies were written and both are damaged. One damaged copy beside zeros is what a crash
    /// leaves while the first copy of a new file is stored.
    pub(crate) fn damaged(&self) -> bool {
        self.0.iter().all(|copy| {
            matches!(
                copy,
                Err(SegmentHeaderFault::Checksum { .. } | SegmentHeaderFault::Magic { zeroed: false })
            )
        })
    }

    /// A fault that is neither damage nor an unwritten header: a newer format, or impossible fields.
    pub(crate) fn unusable_fault(&self) -> Option<&SegmentHeaderFault> {
        self.0.iter().filter_map(|copy| copy.as_ref().err()).find(|fault| {
            matches!(fault, SegmentHeaderFault::Unsupported { .. } | SegmentHeaderFault::Impossible(_))
        })
    }
}
