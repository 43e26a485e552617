//! The shape of the tree on disk: runs, levels, versions, edits and the manifest.
