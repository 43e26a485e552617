//! Control groups (cgroups): the least memory limit of a process's group and the groups around it.
//!
//! A service manager or a container runtime sets the limit at any group on the way to the root, and the
//! kernel ends processes beyond the least of them. A container may see its own group as the root while the
//! membership names the path outside of it, so groups that are not there are passed over.
#![allow(clippy::disallowed_methods, reason = "this crate is the door that the bans lead to")]

use std::path::Path;

/// A process in the root group of both hierarchies, for a system that does not tell.
pub(crate) const ROOT_MEMBERSHIPS: &str = "0::/\n1:memory:/\n";

/// The least memory limit in bytes for a process with these lines in `/proc/PID/cgroup`, under the mount
/// point `/sys/fs/cgroup`. `None` without a limit. In version 1 no limit is a number beyond all memory.
pub(crate) fn memory_limit_bytes(mount: &Path, memberships: &str) -> Option<u64> {
    memberships.lines().filter_map(|line| limit_of_membership(mount, line)).min()
}

/// The same for one line, `NUMBER:CONTROLLERS:PATH`. Version 2 has no controllers there.
fn limit_of_membership(mount: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let (folder, files): (&str, &[&str]) = match controllers {
        // Beyond `memory.high` allocations are slowed until they cannot be borne.
        "" => ("", &["memory.max", "memory.high"]),
        names if names.split(',').any(|name| name == "memory") => ("memory", &["memory.limit_in_bytes"]),
        _ => return None,
    };
    // A group outside of the namespace's root begins with `..`; only what is mounted can be read.
    let path = if path.split('/').any(|part| part == "..") { "" } else { path.trim_matches('/') };
    let limit = |group: &Path, file: &str| {
        let text = std::fs::read_to_string(mount.join(folder).join(group).join(file)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    Path::new(path)
        .ancestors()
        .flat_map(|group| files.iter().filter_map(move |file| limit(group, file)))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A directory in the place of `/sys/fs/cgroup`, removed at the end of the test.
    struct Mount(PathBuf);

    impl Mount {
        fn new(name: &str, files: &[(&str, &str)]) -> Mount {
            let outer = std::env::temp_dir().join(format!("esker-cgroup-{name}-{}", std::process::id()));
            let mount = Mount(outer);
            files.iter().for_each(|(path, text)| mount.write(path, text));
            mount
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join("mount").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn limit(&self, memberships: &str) -> Option<u64> {
            memory_limit_bytes(&self.0.join("mount"), memberships)
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_least_limit_on_the_way_to_the_root_counts() {
        let mount = Mount::new(
            "services",
            &[
                ("system.slice/memory.max", "5000\n"),
                ("system.slice/esker.service/memory.max", "max\n"),
                ("system.slice/esker.service/memory.high", "7000\n"),
                ("system.slice/other.service/memory.max", "10\n"),
            ],
        );
        assert_eq!(mount.limit("0::/system.slice/esker.service\n"), Some(5000));
        mount.write("system.slice/esker.service/memory.high", "3000");
        assert_eq!(mount.limit("0::/system.slice/esker.service\n"), Some(3000));
        assert_eq!(mount.limit("0::/user.slice\n"), None);
        assert_eq!(mount.limit(ROOT_MEMBERSHIPS), None);
    }

    #[test]
    fn the_memory_hierarchy_of_version_1_is_read() {
        let mount = Mount::new(
            "version-1",
            &[
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/jobs/esker/memory.limit_in_bytes", "4096\n"),
                ("cpu/jobs/esker/memory.limit_in_bytes", "1\n"),
            ],
        );
        assert_eq!(
            mount.limit("5:cpu,cpuacct:/jobs/esker\n4:hugetlb,memory:/jobs/esker\n0::/\n"),
            Some(4096)
        );
        assert_eq!(mount.limit("4:memory:/"), Some(9_223_372_036_854_771_712));
        assert_eq!(mount.limit("4:cpu:/jobs/esker"), None);
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let mount = Mount::new("container", &[("memory.max", "2048"), ("../memory.max", "1")]);
        assert_eq!(mount.limit("0::/docker/0123abcd\n"), Some(2048));
        assert_eq!(mount.limit("0::/../outside\n"), Some(2048));
        for damaged in ["", "0:", "0::", "nothing", "0::/\u{0}"] {
            assert!(matches!(mount.limit(damaged), None | Some(2048)), "{damaged:?}");
        }
    }
}
