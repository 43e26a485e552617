//! A memory group of the kernel (cgroup, version 1 or 2) around a run: allocations of the process, and the
//! pages of the files that it reads and writes, count against one limit, as on a machine with so much memory.
//!
//! The process creates a group below the root of the hierarchy, joins it, and at the end returns to the group
//! from which it came and removes its own. The kernel counts a page for the group that touched it first, so
//! the data must be written by the run itself, or be dropped from the page cache before (see
//! [`drop_cached_pages`](crate::process::drop_cached_pages)).

use crate::engine::Result;
use std::io::Result as IoResult;
use std::path::{Path, PathBuf};

/// What names of groups begin with; the process's number follows.
const GROUP_NAME: &str = "peers-";
/// The file of a group that lists its processes and takes new ones.
const PROCESSES_FILE: &str = "cgroup.procs";

/// Interface of the hierarchy that limits memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The hierarchy that limits memory, and the group in which this process is.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    root: PathBuf,
    own: PathBuf,
}

impl Hierarchy {
    /// By the kernel's tables of mounts and of this process's groups; `None` without a hierarchy of memory.
    /// Where both versions are mounted, the first one has the memory unless its line is missing.
    fn find(mounts: &str, groups: &str) -> Option<Hierarchy> {
        let mount = |kind: &str, option: Option<&str>| {
            mounts.lines().find_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let options = words.get(3)?;
                let has_option = option.is_none_or(|option| options.split(',').any(|word| word == option));
                (words.get(2) == Some(&kind) && has_option).then(|| PathBuf::from(words[1]))
            })
        };
        // A line is `number:controllers:/path`; the second version has no controllers there.
        let own = |controller: &str| {
            groups.lines().find_map(|line| {
                let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                controllers.split(',').any(|word| word == controller).then_some(path)
            })
        };
        let one = mount("cgroup", Some("memory")).zip(own("memory"));
        let two = || mount("cgroup2", None).zip(own(""));
        let (version, (root, own)) = match one {
            Some(found) => (Version::One, found),
            None => (Version::Two, two()?),
        };
        let own = root.join(own.trim_start_matches('/'));
        Some(Hierarchy { version, root, own })
    }

    /// Makes a group with this limit, without swap.
    fn make(&self, name: &str, limit_bytes: u64) -> Result<PathBuf> {
        let group = self.root.join(name);
        std::fs::create_dir(&group).map_err(|error| {
            format!("cannot make the memory group {}: {error}; a memory limit needs root", group.display())
        })?;
        let (limit_file, swap_file) = match self.version {
            Version::One => ("memory.limit_in_bytes", "memory.swappiness"),
            Version::Two => ("memory.max", "memory.swap.max"),
        };
        set(&group.join(limit_file), limit_bytes).map_err(|error| {
            format!(
                "cannot limit {} to {limit_bytes} bytes: {error}; in version 2 {}/cgroup.subtree_control must \
                 have `memory`",
                group.display(),
                self.root.display()
            )
        })?;
        // Missing where the kernel knows no swap.
        set(&group.join(swap_file), 0).ok();
        Ok(group)
    }

    /// Removes the groups of runs that were killed; those in which processes are refuse it.
    fn remove_empty_groups(&self) {
        let Ok(entries) = std::fs::read_dir(&self.root) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(GROUP_NAME) {
                std::fs::remove_dir(entry.path()).ok();
            }
        }
    }
}

/// Writes a number to one of the kernel's files, which must exist.
fn set(file: &Path, number: u64) -> IoResult<()> {
    use std::io::Write;
    std::fs::OpenOptions::new().write(true).open(file)?.write_all(number.to_string().as_bytes())
}

/// Membership of this process in a group of its own.
pub(crate) struct MemoryGroup {
    group: PathBuf,
    former: PathBuf,
}

impl MemoryGroup {
    /// Joins a new group with this limit.
    ///
    /// # Errors
    /// Without root, and without a hierarchy that limits memory.
    pub(crate) fn enter(limit_bytes: u64) -> Result<MemoryGroup> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let hierarchy = Hierarchy::find(&read("/proc/mounts"), &read("/proc/self/cgroup"))
            .ok_or("the kernel has no cgroup hierarchy that limits memory: a memory limit needs one")?;
        hierarchy.remove_empty_groups();
        let group = hierarchy.make(&format!("{GROUP_NAME}{}", std::process::id()), limit_bytes)?;
        let member = MemoryGroup { group, former: hierarchy.own };
        move_to(&member.group)
            .map_err(|error| format!("cannot join the memory group {}: {error}", member.group.display()))?;
        Ok(member)
    }
}

fn move_to(group: &Path) -> IoResult<()> {
    set(&group.join(PROCESSES_FILE), u64::from(std::process::id()))
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A group that stays, because the former one is gone, is removed by the next run.
        if move_to(&self.former).is_ok() {
            std::fs::remove_dir(&self.group).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Hierarchy, MemoryGroup, Version};
    use std::path::PathBuf;

    const MOUNTS_OF_ONE: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                                 cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                                 cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                                 cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    const MOUNTS_OF_TWO: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate,memory_recursiveprot 0 0\n";

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let found = |mounts, groups| {
            Hierarchy::find(mounts, groups).map(|found| (found.version, found.root, found.own))
        };
        let path = PathBuf::from;
        assert_eq!(
            found(MOUNTS_OF_ONE, "5:cpu,cpuacct:/a\n4:memory:/user/b\n0::/c\n"),
            Some((Version::One, path("/sys/fs/cgroup/memory"), path("/sys/fs/cgroup/memory/user/b")))
        );
        assert_eq!(
            found(MOUNTS_OF_TWO, "0::/user.slice/d\n"),
            Some((Version::Two, path("/sys/fs/cgroup"), path("/sys/fs/cgroup/user.slice/d")))
        );
        assert_eq!(found("tmpfs /tmp tmpfs rw 0 0\n", "0::/\n"), None);
    }

    #[test]
    fn a_hierarchy_without_the_controller_is_refused_with_what_to_do() {
        let root = std::env::temp_dir().join(format!("peers-hierarchy-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let hierarchy = Hierarchy { version: Version::Two, root: root.clone(), own: root.clone() };
        let error = hierarchy.make("peers-1", 1 << 30).unwrap_err().to_string();
        assert!(error.contains("cgroup.subtree_control must have `memory`"), "{error}");
        let error = hierarchy.make("peers-1", 1 << 30).unwrap_err().to_string();
        assert!(error.contains("needs root"), "{error}");
        hierarchy.remove_empty_groups();
        assert!(!root.join("peers-1").exists());
        std::fs::remove_dir_all(root).unwrap();
    }

    /// Where the kernel allows it; the limit is above what the tests of this process need.
    #[test]
    #[allow(clippy::print_stderr, reason = "a test that cannot run must say so")]
    fn a_process_joins_its_group_and_leaves_it() {
        let groups = || std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let before = groups();
        let member = match MemoryGroup::enter(64 << 30) {
            Ok(member) => member,
            Err(error) => return eprintln!("not tested: {error}"),
        };
        let name = member.group.file_name().unwrap().to_string_lossy().into_owned();
        assert!(groups().contains(&name), "{} is not in {}", groups(), name);
        let group = member.group.clone();
        drop(member);
        assert_eq!(groups(), before);
        assert!(!group.exists());
    }
}
