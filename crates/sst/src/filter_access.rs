//! Where a table's filter is: kept in memory, paged through the block cache, or missing. See
//! [`crate::table_filter`].

use crate::footer::Section;
use esker_base::Error;
use esker_filter::Filter;
use parking_lot::Mutex;
use std::sync::OnceLock;

pub(crate) enum FilterAccess {
    /// In memory as long as the table.
    Kept(Filter),
    /// There is none, or it is damaged.
    None,
    /// In the cache, or only in its section of the file.
    Paged(PagedFilter),
}

pub(crate) struct PagedFilter {
    pub(crate) section: Section,
    /// Held by the thread that reads it (PF4 in [`crate::table_filter`]).
    pub(crate) reading: Mutex<()>,
}

impl PagedFilter {
    /// The filter in this section, not read yet.
    pub(crate) fn new(section: Section) -> PagedFilter {
        PagedFilter { section, reading: Mutex::new(()) }
    }
}

impl FilterAccess {
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            FilterAccess::Kept(filter) => filter.memory_bytes(),
            FilterAccess::None | FilterAccess::Paged(_) => 0,
        }
    }
}

pub(crate) type FilterDamage = OnceLock<Error>;
