//! Shared writable maps of files: the memory is the page cache itself, so that stored bytes are in the kernel
//! at once and outlive the process (CP3).
//!
//! Hazards, and their handling: a store to a hole of a full file system kills the process, so callers
//! allocate first and check [`crate::FileSystem::can_map_writable`]; a child of `fork` would keep the pages
//! mapped, so they are excluded from it; a device error shows up at the next sync, never at the store.

use crate::fs::Mapping;
use esker_base::Result;
use std::fs::File;
use std::path::Path;

#[cfg(unix)]
pub(super) fn map_writable(file: &File, path: &Path, len: usize) -> Result<Mapping> {
    unix::map_writable(file, path, len)
}

/// A whole file as read-only memory.
#[derive(Debug)]
pub(super) struct ReadMap {
    #[cfg(unix)]
    map: unix::UnixReadMap,
    #[cfg(not(unix))]
    never: std::convert::Infallible,
}

impl ReadMap {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        #[cfg(unix)]
        return self.map.bytes();
        #[cfg(not(unix))]
        match self.never {}
    }
}

/// Maps a file for reading; `None` if that fails, and for an empty one.
pub(super) fn map_readable(file: &File, len: u64) -> Option<ReadMap> {
    #[cfg(unix)]
    return unix::map_readable(file, usize::try_from(len).ok()?).map(|map| ReadMap { map });
    #[cfg(not(unix))]
    {
        let _ = (file, len);
        None
    }
}

#[cfg(not(unix))]
pub(super) fn map_writable(_file: &File, path: &Path, _len: usize) -> Result<Mapping> {
    let path = path.display();
    Err(esker_base::Error::Unsupported(format!("writable maps of files on this system ({path})").into()))
}

#[cfg(unix)]
mod unix {
    use crate::fs::{Mapping, MappingOwner};
    use esker_base::{Error, Result};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::ffi::c_void;
    use std::fs::File;
    use std::path::Path;
    use std::ptr::NonNull;

    #[derive(Debug)]
    struct Unmap {
        base: NonNull<u8>,
        len: usize,
    }

    // SAFETY: holds an address and a length, used once when it is dropped, on any thread.
    unsafe impl Send for Unmap {}
    // SAFETY: `&Unmap` offers no operation.
    unsafe impl Sync for Unmap {}

    impl MappingOwner for Unmap {
        #[cfg(target_os = "linux")]
        fn populate(&self) {
            use rustix::mm::{Advice, madvise};
            // SAFETY: the whole map; this advice takes write faults and changes no byte. A kernel without it
            // refuses.
            let _ =
                unsafe { madvise(self.base.as_ptr().cast::<c_void>(), self.len, Advice::LinuxPopulateWrite) };
        }
    }

    impl Drop for Unmap {
        fn drop(&mut self) {
            // SAFETY: the whole map as made below; the `Mapping` that owned this is gone, so no store
            // follows.
            let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.len) };
        }
    }

    #[derive(Debug)]
    pub(super) struct UnixReadMap(Unmap);

    impl UnixReadMap {
        #[inline]
        pub(super) fn bytes(&self) -> &[u8] {
            // SAFETY: `base..base+len` is mapped for reading until `self` is dropped. No code in this process
            // stores to the file: it was opened with `OpenMode::ReadMapped`, whose contract says so; the same
            // contract binds the user for other processes.
            unsafe { std::slice::from_raw_parts(self.0.base.as_ptr(), self.0.len) }
        }
    }

    pub(super) fn map_readable(file: &File, len: usize) -> Option<UnixReadMap> {
        if len == 0 || isize::try_from(len).is_err() {
            return None;
        }
        // SAFETY: a new map at an address of the kernel's choice touches no existing memory.
        let base = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) };
        let base = NonNull::new(base.ok()?.cast::<u8>())?;
        Some(UnixReadMap(Unmap { base, len }))
    }

    pub(super) fn map_writable(file: &File, path: &Path, len: usize) -> Result<Mapping> {
        let failed = |source: rustix::io::Errno| Error::io("map", path, source.into());
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new map at an address of the kernel's choice touches no existing memory.
        let base = unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) };
        let base = NonNull::new(base.map_err(failed)?.cast::<u8>());
        let base = base.ok_or_else(|| Error::internal("the kernel mapped a file at address zero"))?;
        let owner = Unmap { base, len };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use rustix::mm::{Advice, madvise};
            // SAFETY: concerns children only. They would be second writers of the log.
            let advised = unsafe { madvise(base.as_ptr().cast::<c_void>(), len, Advice::LinuxDontFork) };
            advised.map_err(failed)?;
        }
        // SAFETY: `base..base+len` was just mapped for writing, no other code in the process has the address,
        // and dropping `owner` ends the map.
        Ok(unsafe { Mapping::new(base, len, Box::new(owner), None) })
    }
}
