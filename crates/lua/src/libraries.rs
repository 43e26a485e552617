//! The libraries of a server, as a value: FUNCTION LOAD, DELETE, FLUSH, RESTORE and what FCALL finds.

use crate::engine::Engine;
use crate::host::Host;
use crate::library::{Library, LibraryFunction, read_header};
use std::collections::{BTreeMap, HashMap};

/// What FUNCTION RESTORE does with libraries that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// They stay; a name that is there refuses all.
    Append,
    /// Those of the same name go.
    Replace,
    /// All go.
    Flush,
}

/// Libraries by name, and their functions by name in any case of letters.
///
/// Invariant: every function of every library is found by its name, and no two have the same. Redis lets one
/// library register names that differ in the case of letters alone, finds one of them, and ends when the
/// library is deleted.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    libraries: BTreeMap<Vec<u8>, Library>,
    /// The name in lower case, and where it is.
    functions: HashMap<Vec<u8>, (Library, usize)>,
}

impl Libraries {
    /// Loads `code` by `engine` and adds it: FUNCTION LOAD. Returns the library.
    ///
    /// # Errors
    /// The reply's text. Nothing has changed then.
    pub fn load(
        &mut self,
        engine: &mut Engine,
        code: &[u8],
        replace: bool,
        host: &mut dyn Host,
    ) -> Result<Library, Vec<u8>> {
        let with_code = |text: Vec<u8>| [b"ERR ", text.as_slice()].concat();
        let header = read_header(code).map_err(with_code)?;
        if !replace && self.libraries.contains_key(&header.name) {
            return Err(with_code([b"Library '", header.name.as_slice(), b"' already exists"].concat()));
        }
        let library = engine.load_library(code, host)?;
        self.add(library.clone(), replace)?;
        Ok(library)
    }

    /// Adds a library.
    ///
    /// # Errors
    /// The reply's text, if the library is there and must not be replaced, or a function has the name of
    /// another library's. Nothing has changed then.
    pub fn add(&mut self, library: Library, replace: bool) -> Result<(), Vec<u8>> {
        let policy = if replace { RestorePolicy::Replace } else { RestorePolicy::Append };
        self.restore(vec![library], policy)
    }

    /// Adds many libraries, all or none: FUNCTION RESTORE.
    ///
    /// # Errors
    /// As of [`add`](Self::add).
    pub fn restore(&mut self, libraries: Vec<Library>, policy: RestorePolicy) -> Result<(), Vec<u8>> {
        let mut next = if policy == RestorePolicy::Flush { Self::default() } else { self.clone() };
        for library in libraries {
            if next.libraries.contains_key(library.name()) {
                if policy != RestorePolicy::Replace {
                    return Err([b"ERR Library ", library.name(), b" already exists"].concat());
                }
                next.remove(library.name());
            }
            for (place, function) in library.functions().iter().enumerate() {
                let at = (library.clone(), place);
                if next.functions.insert(function.name.to_ascii_lowercase(), at).is_some() {
                    return Err([b"ERR Function ", function.name.as_slice(), b" already exists"].concat());
                }
            }
            next.libraries.insert(library.name().to_vec(), library);
        }
        *self = next;
        Ok(())
    }

    /// Removes a library: FUNCTION DELETE. Whether there was one.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        for function in library.functions() {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        true
    }

    /// Removes all: FUNCTION FLUSH.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The function that FCALL names, and its library.
    #[must_use]
    pub fn function(&self, name: &[u8]) -> Option<(&Library, &LibraryFunction)> {
        let (library, place) = self.functions.get(&name.to_ascii_lowercase())?;
        Some((library, library.functions().get(*place)?))
    }

    /// The library of this name.
    #[must_use]
    pub fn library(&self, name: &[u8]) -> Option<&Library> {
        self.libraries.get(name)
    }

    /// All libraries, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Library> {
        self.libraries.values()
    }

    /// How many libraries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.libraries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.libraries.is_empty()
    }

    /// How many functions there are.
    #[must_use]
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }
}
