//! Option updates under way: a closure that changes a keyspace's options must not do so a second time.
//!
//! An update computes the new options from the present ones and starts over if those were changed meanwhile.
//! A closure that itself updates the same keyspace changes them each time, so the update would never end.
//! Each thread therefore knows the keyspaces whose options it is changing.

use esker_base::{Error, Result};
use esker_engine::state::keyspace::KeyspaceState;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The keyspaces whose options this thread is changing, innermost last.
    static CHANGING: RefCell<Vec<*const KeyspaceState>> = const { RefCell::new(Vec::new()) };
}

/// Marks an update as under way; the mark ends with the value.
pub(super) struct OptionUpdate<'a> {
    keyspace: &'a Arc<KeyspaceState>,
}

impl<'a> OptionUpdate<'a> {
    /// Begins an update.
    ///
    /// # Errors
    /// `InvalidArgument` if it begins inside of another one of the same keyspace, on the same thread.
    pub(super) fn begin(keyspace: &'a Arc<KeyspaceState>) -> Result<OptionUpdate<'a>> {
        let address = Arc::as_ptr(keyspace);
        let is_nested = CHANGING.try_with(|changing| {
            let is_nested = changing.borrow().contains(&address);
            if !is_nested {
                changing.borrow_mut().push(address);
            }
            is_nested
        });
        match is_nested {
            // In the destructor of another thread-local this one may be gone; then nothing is checked.
            Ok(false) | Err(_) => Ok(OptionUpdate { keyspace }),
            Ok(true) => Err(Error::invalid(format!(
                "the options of keyspace {:?} are changed from inside of the closure that changes them; return all \
                 changes from that closure",
                keyspace.name()
            ))),
        }
    }
}

impl Drop for OptionUpdate<'_> {
    fn drop(&mut self) {
        let address = Arc::as_ptr(self.keyspace);
        let _ = CHANGING.try_with(|changing| changing.borrow_mut().retain(|other| *other != address));
    }
}
