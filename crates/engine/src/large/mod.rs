//! Key-value separation, the writing side: large values go to blob files; see [`esker_view::tree::blob_files`].

pub(crate) mod separate;

pub(crate) use separate::{Relocation, Separator};
