//! Checks that a crate has no two types of one name.
//!
//! A name such as `Table` must say which table it is without its path. Types of tests, and types inside
//! functions, do not count. The exemptions in [`SHARED`] are names that a crate repeats on purpose.

use super::written;
use crate::findings::Findings;
use crate::repository::{Repository, is_test_only};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A name that several modules of a crate give to the same idea, each for its own kind.
struct Shared {
    /// The crate's folder.
    package: &'static str,
    name: &'static str,
    reason: &'static str,
}

const SHARED: &[Shared] = &[
    Shared {
        package: "crates/cli",
        name: "Reader",
        reason: "a file of pairs has a reader in the module of each of its formats, named with the module: csv::Reader",
    },
    Shared {
        package: "crates/cli",
        name: "Writer",
        reason: "a file of pairs has a writer in the module of each of its formats, named with the module: csv::Writer",
    },
    Shared {
        package: "crates/memtable",
        name: "Memory",
        reason: "the model of threads replaces the mapped memory by a twin of the same name",
    },
    Shared {
        package: "crates/memtable",
        name: "View",
        reason: "the model of threads replaces the mapped memory by a twin of the same name",
    },
];

/// First position of a type, by the folder of its crate and its name.
type Seen = BTreeMap<(PathBuf, String), (PathBuf, usize)>;

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    let mut seen = Seen::new();
    for (path, source) in written(repository).filter(|(_, source)| !source.is_test) {
        if let Some(package) = package_of(path) {
            check_items(path, &package, &source.syntax.items, &mut seen, findings);
        }
    }
}

/// The folder of the crate that a file of its library or program belongs to.
fn package_of(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .find(|folder| folder.file_name().is_some_and(|name| name == "src"))?
        .parent()
        .map(Path::to_owned)
}

fn check_items(path: &Path, package: &Path, items: &[syn::Item], seen: &mut Seen, findings: &mut Findings) {
    for item in items {
        let (attributes, ident) = match item {
            syn::Item::Struct(item) => (&item.attrs, &item.ident),
            syn::Item::Enum(item) => (&item.attrs, &item.ident),
            syn::Item::Trait(item) => (&item.attrs, &item.ident),
            syn::Item::Union(item) => (&item.attrs, &item.ident),
            syn::Item::Mod(module) => {
                if let Some((_, inner)) = &module.content
                    && !is_test_only(&module.attrs)
                {
                    check_items(path, package, inner, seen, findings);
                }
                continue;
            }
            _ => continue,
        };
        if is_test_only(attributes) || has_condition(attributes) || is_shared(package, &ident.to_string()) {
            continue;
        }
        let line = ident.span().start().line;
        let key = (package.to_owned(), ident.to_string());
        if let Some((other, other_line)) = seen.get(&key) {
            let text = format!(
                "a second type `{ident}` in this crate, beside {}:{other_line}: give each a name that says which",
                other.display()
            );
            findings.error(path, line, text);
        } else {
            seen.insert(key, (path.to_owned(), line));
        }
    }
}

/// Twins for two platforms, or for a model of threads, share a name: only one of them is compiled.
fn has_condition(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("cfg"))
}

fn is_shared(package: &Path, name: &str) -> bool {
    SHARED.iter().any(|shared| {
        debug_assert!(!shared.reason.is_empty(), "an exemption has a reason");
        Path::new(shared.package) == package && shared.name == name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let (mut seen, mut findings) = (Seen::new(), Findings::default());
        let syntax = syn::parse_file(text).unwrap();
        check_items(Path::new("c/src/a.rs"), Path::new("c"), &syntax.items, &mut seen, &mut findings);
        findings.texts().len()
    }

    #[test]
    fn two_types_of_one_name_are_found() {
        assert_eq!(found("struct A; struct B;"), 0);
        assert_eq!(found("struct A; mod m { enum A {} }"), 1);
        assert_eq!(found("struct A; trait A {}"), 1);
    }

    #[test]
    fn tests_and_twins_do_not_count() {
        assert_eq!(found("struct A; #[cfg(test)] mod tests { struct A; }"), 0);
        assert_eq!(found("#[cfg(unix)] struct A; #[cfg(not(unix))] struct A;"), 0);
    }

    #[test]
    fn a_file_belongs_to_the_crate_above_its_sources() {
        assert_eq!(package_of(Path::new("crates/sst/src/block/flat.rs")), Some(PathBuf::from("crates/sst")));
        assert_eq!(package_of(Path::new("crates/sst/tests/a.rs")), None);
    }
}
