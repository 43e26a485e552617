//! The crate's unsafe code: the C functions of `glue/`, and a host that is lent to closures for one run.
//!
//! Invariants:
//! * LU4. A lent host is alive and used once at a time: [`HostSlot`] holds the pointer only within
//!   [`HostSlot::lend`], whose borrow outlives it, and takes it out while it is used.

use crate::host::Host;
use mlua::{Function, Lua, Table};
use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::NonNull;

unsafe extern "C-unwind" {
    fn esker_open(state: *mut mlua::lua_State) -> c_int;
}

/// The functions of `glue/glue.c`.
pub(crate) fn open_glue(lua: &Lua) -> mlua::Result<Table> {
    // SAFETY: `esker_open` is a C function of Lua: it takes no arguments, leaves one value and uses no more
    // stack than every C function has.
    let open: Function = unsafe { lua.create_c_function(esker_open) }?;
    open.call(())
}

/// The host of the run that is going on, for closures that Lua owns and which therefore borrow nothing.
#[derive(Default)]
pub(crate) struct HostSlot(Cell<Option<NonNull<dyn Host>>>);

impl HostSlot {
    /// Lends `host` while `run` runs.
    pub(crate) fn lend<R>(&self, host: &mut dyn Host, run: impl FnOnce() -> R) -> R {
        // SAFETY: only the lifetime changes. The pointer leaves the slot again before this function returns,
        // by the guard also when `run` panics, and `host` is borrowed until then.
        let host: NonNull<dyn Host> =
            unsafe { std::mem::transmute::<NonNull<dyn Host + '_>, NonNull<dyn Host>>(NonNull::from(host)) };
        let _back = PutBack(self, self.0.replace(Some(host)));
        run()
    }

    /// Uses the lent host; `None` without one, or while it is being used.
    pub(crate) fn with<R>(&self, use_it: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        let mut host = self.0.take()?;
        let _back = PutBack(self, Some(host));
        // SAFETY: the pointer comes from a `&mut` that `lend` borrows until it has removed it, and it was
        // taken out of the slot, so that this reference is the only one.
        Some(use_it(unsafe { host.as_mut() }))
    }

    /// Whether a script runs.
    pub(crate) fn is_lent(&self) -> bool {
        let host = self.0.take();
        self.0.set(host);
        host.is_some()
    }
}

/// Sets the slot when it is dropped.
struct PutBack<'s>(&'s HostSlot, Option<NonNull<dyn Host>>);

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        self.0.0.set(self.1);
    }
}
