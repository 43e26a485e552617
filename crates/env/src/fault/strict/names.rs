//! Path lookup and directory operations of a strict file system.

use super::StrictState;
use super::disk::{Disk, InodeId, ROOT};
use super::event::Change;
use crate::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Component, Path};
use std::sync::Arc;

type PathResult<T> = Result<T, ErrorKind>;

/// The names of a path from the root; there is no current directory, so a relative path starts there as well.
fn names_of(path: &Path) -> PathResult<Vec<Arc<str>>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_str().ok_or(ErrorKind::InvalidFilename)?.into()),
            Component::ParentDir => {
                names.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Ok(names)
}

impl Disk {
    pub(super) fn child(&self, dir: InodeId, name: &str) -> Option<InodeId> {
        self.dirs.get(&dir).and_then(|dir| dir.live.get(name).copied())
    }

    fn walk(&self, names: &[Arc<str>]) -> PathResult<InodeId> {
        let mut inode = ROOT;
        for name in names {
            if !self.dirs.contains_key(&inode) {
                return Err(ErrorKind::NotADirectory);
            }
            inode = self.child(inode, name).ok_or(ErrorKind::NotFound)?;
        }
        Ok(inode)
    }

    pub(super) fn at(&self, path: &Path) -> PathResult<InodeId> {
        self.walk(&names_of(path)?)
    }

    pub(super) fn dir_at(&self, path: &Path) -> PathResult<InodeId> {
        let inode = self.at(path)?;
        if self.dirs.contains_key(&inode) { Ok(inode) } else { Err(ErrorKind::NotADirectory) }
    }

    pub(super) fn parent_of(&self, path: &Path) -> PathResult<(InodeId, Arc<str>)> {
        let mut names = names_of(path)?;
        let name = names.pop().ok_or(ErrorKind::InvalidInput)?;
        let dir = self.walk(&names)?;
        if self.dirs.contains_key(&dir) { Ok((dir, name)) } else { Err(ErrorKind::NotADirectory) }
    }
}

pub(super) fn entries(disk: &Disk, dir: InodeId) -> Vec<DirEntry> {
    let names = disk.dirs.get(&dir).map(|dir| dir.live.clone()).unwrap_or_default();
    let entry = |(name, inode): (&Arc<str>, &InodeId)| {
        let file = disk.files.get(inode);
        DirEntry {
            name: name.to_string(),
            len: file.map_or(0, |file| file.live.len()),
            is_dir: file.is_none(),
        }
    };
    names.iter().map(entry).collect()
}

pub(super) fn create_dir_all(state: &mut StrictState, path: &Path) -> PathResult<()> {
    let mut dir = ROOT;
    let mut reached = std::path::PathBuf::from("/");
    for name in names_of(path)? {
        reached.push(&*name);
        dir = match state.disk.child(dir, &name) {
            Some(inode) if state.disk.dirs.contains_key(&inode) => inode,
            Some(_) => return Err(ErrorKind::NotADirectory),
            None => {
                let inode = state.disk.next_inode;
                state.apply(&reached, Change::Create { dir, name, inode, is_dir: true });
                inode
            }
        };
    }
    Ok(())
}

pub(super) fn rename(state: &mut StrictState, from: &Path, to: &Path) -> PathResult<()> {
    let source = state.disk.parent_of(from)?;
    let inode = state.disk.child(source.0, &source.1).ok_or(ErrorKind::NotFound)?;
    let target = state.disk.parent_of(to)?;
    let moves_dir = state.disk.dirs.contains_key(&inode);
    if let Some(replaced) = state.disk.child(target.0, &target.1) {
        if replaced == inode {
            // Two names of one file: POSIX defines this as no operation.
            return Ok(());
        }
        match (moves_dir, state.disk.dirs.get(&replaced)) {
            (false, None) => {}
            (true, Some(dir)) if dir.live.is_empty() => {}
            (true, Some(_)) => return Err(ErrorKind::DirectoryNotEmpty),
            (true, None) => return Err(ErrorKind::NotADirectory),
            (false, Some(_)) => return Err(ErrorKind::IsADirectory),
        }
    }
    if moves_dir && is_within(&names_of(to)?, &names_of(from)?) {
        return Err(ErrorKind::InvalidInput);
    }
    state.apply(from, Change::Rename { from: source, to: target, inode, to_path: to.to_path_buf() });
    Ok(())
}

fn is_within(path: &[Arc<str>], dir: &[Arc<str>]) -> bool {
    path.starts_with(dir)
}

pub(super) fn remove_file(state: &mut StrictState, path: &Path) -> PathResult<()> {
    let (dir, name) = state.disk.parent_of(path)?;
    let inode = state.disk.child(dir, &name).ok_or(ErrorKind::NotFound)?;
    if state.disk.dirs.contains_key(&inode) {
        return Err(ErrorKind::IsADirectory);
    }
    state.apply(path, Change::Unlink { dir, name, inode });
    Ok(())
}

/// Removes one name after the other; a crash can fall between any two.
pub(super) fn remove_dir_all(state: &mut StrictState, path: &Path) -> PathResult<()> {
    let inode = state.disk.dir_at(path)?;
    let (dir, name) = state.disk.parent_of(path)?;
    for entry in entries(&state.disk, inode) {
        let child = path.join(&entry.name);
        if entry.is_dir {
            remove_dir_all(state, &child)?;
        } else {
            remove_file(state, &child)?;
        }
    }
    state.apply(path, Change::Unlink { dir, name, inode });
    Ok(())
}

pub(super) fn is_same_file(state: &StrictState, one: &Path, other: &Path) -> PathResult<bool> {
    Ok(state.disk.at(one)? == state.disk.at(other)?)
}

pub(super) fn hard_link(state: &mut StrictState, from: &Path, to: &Path) -> PathResult<()> {
    let inode = state.disk.at(from)?;
    if state.disk.dirs.contains_key(&inode) {
        return Err(ErrorKind::PermissionDenied);
    }
    let (dir, name) = state.disk.parent_of(to)?;
    if state.disk.child(dir, &name).is_some() {
        return Err(ErrorKind::AlreadyExists);
    }
    state.apply(to, Change::Link { dir, name, inode });
    Ok(())
}
