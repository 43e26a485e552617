//! `arch`: checks the dependencies between crates and between modules.
//!
//! Cargo refuses cycles of crates but not dependencies that point up. So the floors of the table in
//! [`floors`] are checked here, against the manifests as `cargo metadata` reports them:
//!
//! * a crate depends on crates of lower floors only, and above the facade on nothing below it;
//! * a third-party crate is used on the floors that it was chosen for, and nowhere else;
//! * a module uses those below it only, in the order that its crate declares ([`order`]);
//! * unsafe code stays in the listed modules, and crates without any say `#![forbid(unsafe_code)]`.

mod arrows;
mod floors;
mod module_orders;
mod order;
mod unsafe_code;

use crate::findings::Findings;
use crate::repository::Repository;
use cargo_metadata::{Dependency, DependencyKind, Package};
use floors::{CRATES, Crate, FACADE_FLOOR, Place, THIRD_PARTY};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where the table is, for messages.
const TABLE: &str = "xtask/src/arch/floors.rs";

pub(crate) fn check(repository: &Repository, findings: &mut Findings) {
    for package in &repository.metadata.packages {
        let manifest = relative(repository, package.manifest_path.as_ref());
        let Some(known) = find(&package.name) else {
            let text = format!("{} stands on no floor; give it one in {TABLE}", package.name);
            findings.error(&manifest, 0, text);
            continue;
        };
        check_dependencies(known, package, &manifest, findings);
    }
    for known in CRATES {
        if !repository.metadata.packages.iter().any(|package| package.name.as_str() == known.name) {
            let text = format!("the crate {} is gone; take it out of the table", known.name);
            findings.error(Path::new(TABLE), 0, text);
        }
    }
    order::check(repository, findings);
    unsafe_code::check(repository, findings);
}

/// Prints the order of modules that the code of a crate, or of a folder in it, has.
pub(crate) fn print_order(arguments: &[&str]) -> ExitCode {
    let (package, folder) = match arguments {
        [package] => (*package, ""),
        [package, folder] => (*package, *folder),
        _ => return crate::usage_error("usage: cargo xtask arch --order CRATE [FOLDER]"),
    };
    match Repository::open() {
        Ok(repository) if order::print(&repository, package, folder) => ExitCode::SUCCESS,
        Ok(_) => crate::usage_error("there is no such crate"),
        Err(error) => {
            eprintln!("cargo xtask arch: {error}");
            ExitCode::FAILURE
        }
    }
}

fn find(name: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|known| known.name == name)
}

fn relative(repository: &Repository, path: &Path) -> PathBuf {
    path.strip_prefix(&repository.root).unwrap_or(path).to_owned()
}

fn check_dependencies(known: &Crate, package: &Package, manifest: &Path, findings: &mut Findings) {
    for dependency in &package.dependencies {
        let refusal = match find(&dependency.name) {
            Some(target) => refuse_internal(known, target, dependency.kind),
            None if dependency.path.is_some() => {
                Some(format!("{} stands on no floor; give it one in {TABLE}", dependency.name))
            }
            None => refuse_third_party(known, dependency),
        };
        if let Some(text) = refusal {
            findings.error(manifest, 0, text);
        }
    }
}

/// Why a crate must not depend on another one of the workspace; `None` if it may.
fn refuse_internal(from: &Crate, to: &Crate, kind: DependencyKind) -> Option<String> {
    if from.name == to.name && kind == DependencyKind::Development {
        // The tests of a crate enable its own features in this way.
        return None;
    }
    let (from_floor, to_floor) = match (from.place, to.place) {
        (Place::Tests, _) => return None,
        (Place::Tools, _) | (_, Place::Tools) => {
            return Some(format!("{} and {} have nothing to do with each other", from.name, to.name));
        }
        (Place::Floor(_), Place::Tests) if kind == DependencyKind::Development => return None,
        (Place::Floor(_), Place::Tests) => {
            return Some(format!("{} is for tests; make it a dev-dependency", to.name));
        }
        (Place::Floor(from), Place::Floor(to)) => (from, to),
    };
    if to_floor >= from_floor {
        return Some(format!(
            "{} is on floor {from_floor} and cannot depend on {} on floor {to_floor}: move what it needs to a lower \
             floor, or hand it in as an argument",
            from.name, to.name
        ));
    }
    if from_floor > FACADE_FLOOR && to_floor < FACADE_FLOOR {
        return Some(format!(
            "{} stands above the facade and reaches past it to {}: use `esker`, or `esker::parts` for inspection",
            from.name, to.name
        ));
    }
    None
}

/// Why a crate must not depend on one from outside; `None` if it may.
fn refuse_third_party(from: &Crate, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    let Some(known) = THIRD_PARTY.iter().find(|known| known.name == name) else {
        return Some(format!(
            "{name} is not among the crates chosen: do without it, or add it to {TABLE} and say why in ARCHITECTURE.md"
        ));
    };
    if known.users.contains(&from.name) {
        return None;
    }
    Some(format!(
        "{} must not use {name}, which is there for {}: do without it, or change {TABLE}",
        from.name,
        known.users.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(from: &str, to: &str, kind: DependencyKind) -> Option<String> {
        refuse_internal(find(from).unwrap(), find(to).unwrap(), kind)
    }

    #[test]
    fn arrows_point_down_only() {
        let normal = DependencyKind::Normal;
        assert_eq!(refusal("esker-engine", "esker-strategy", normal), None);
        assert!(refusal("esker-version", "esker-sst", normal).unwrap().contains("floor 3"));
        assert!(refusal("esker-base", "esker-env", normal).is_some());
        assert!(refusal("esker-server", "esker-engine", normal).unwrap().contains("facade"));
        assert_eq!(refusal("esker-server", "esker", normal), None);
        assert_eq!(refusal("esker-cli", "esker-server", normal), None);
    }

    #[test]
    fn test_crates_are_for_tests() {
        assert_eq!(refusal("esker-testkit", "esker-wal", DependencyKind::Normal), None);
        assert_eq!(refusal("esker-engine", "esker-testkit", DependencyKind::Development), None);
        assert!(refusal("esker-engine", "esker-testkit", DependencyKind::Normal).is_some());
        assert!(refusal("xtask", "esker-base", DependencyKind::Normal).is_some());
    }

    #[test]
    fn the_table_is_sound() {
        for known in THIRD_PARTY {
            assert!(!known.users.is_empty(), "{} has no user", known.name);
            for user in known.users {
                assert!(find(user).is_some(), "{} names {user}", known.name);
            }
        }
    }
}
