//! The repository as the checks see it: its files, its packages, and how each source file is compiled.

mod modules;

pub(crate) use modules::{Source, is_generated, is_test_only};

use cargo_metadata::{Metadata, MetadataCommand};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories of tools' output.
const SKIPPED_DIRECTORIES: [&str; 6] =
    ["target", "esker-data", "esker-bench", "artifacts", "node_modules", "hunt"];
/// Hidden directories that belong to the project; all others belong to tools.
const HIDDEN_DIRECTORIES: [&str; 3] = [".ci", ".cargo", ".github"];

pub(crate) struct Repository {
    /// The directory of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// The workspace that `cargo` works on at the root.
    pub(crate) metadata: Metadata,
    /// Every file, relative to the root, in order.
    pub(crate) files: Vec<PathBuf>,
    /// Every source file that some target compiles, relative to the root.
    pub(crate) sources: BTreeMap<PathBuf, Source>,
    /// Source files that could not be read or parsed, with the reason.
    pub(crate) unreadable: Vec<(PathBuf, String)>,
}

/// The root of the repository that cargo runs this program in. Checkouts with a shared target folder share
/// the program, so where it was built says nothing.
pub(crate) fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(own).join("..")
}

impl Repository {
    pub(crate) fn open() -> Result<Repository, String> {
        let manifest = root().join("Cargo.toml");
        let metadata = packages_of(&manifest)?;
        let root: PathBuf = metadata.workspace_root.clone().into();
        let mut files = Vec::new();
        list(&root, Path::new(""), &mut files)
            .map_err(|error| format!("cannot list {}: {error}", root.display()))?;
        files.sort();
        let mut targets = modules::targets_of(&metadata);
        for other in other_workspaces(&root, &files) {
            targets.extend(modules::targets_of(&packages_of(&root.join(other))?));
        }
        let (sources, unreadable) = modules::walk(&root, targets);
        Ok(Repository { root, metadata, files, sources, unreadable })
    }

    /// The text of a file; `None` if it is not text.
    pub(crate) fn text(&self, path: &Path) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    pub(crate) fn len_bytes(&self, path: &Path) -> u64 {
        fs::metadata(self.root.join(path)).map_or(0, |metadata| metadata.len())
    }
}

fn packages_of(manifest: &Path) -> Result<Metadata, String> {
    let mut command = MetadataCommand::new();
    command.manifest_path(manifest).no_deps().other_options(["--offline".to_owned()]);
    command.exec().map_err(|error| format!("cargo metadata for {}: {error}", manifest.display()))
}

/// Manifests of workspaces beside the one at the root, such as `fuzz/`.
fn other_workspaces(root: &Path, files: &[PathBuf]) -> Vec<PathBuf> {
    let is_workspace = |path: &PathBuf| {
        path.ends_with("Cargo.toml")
            && path.parent() != Some(Path::new(""))
            && fs::read_to_string(root.join(path))
                .is_ok_and(|text| text.lines().any(|line| line == "[workspace]"))
    };
    files.iter().filter(|path| is_workspace(path)).cloned().collect()
}

fn list(root: &Path, directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(directory))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = directory.join(name.as_ref());
        if entry.file_type()?.is_dir() {
            let hidden = name.starts_with('.') && !HIDDEN_DIRECTORIES.contains(&name.as_ref());
            if !hidden && !SKIPPED_DIRECTORIES.contains(&name.as_ref()) {
                list(root, &path, files)?;
            }
        } else if name != ".git" {
            files.push(path);
        }
    }
    Ok(())
}
