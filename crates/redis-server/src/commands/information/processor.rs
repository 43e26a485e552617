//! The section `cpu` of INFO: processor time of the process, as the kernel accounts for it.

use crate::server::Server;

/// Clock ticks of a second in `/proc`: fixed by the interface to programs on all architectures of Linux.
const TICKS_OF_A_SECOND: f64 = 100.0;

/// Seconds in the kernel and outside of it: of the process, and of children that have ended.
#[derive(Debug, Default, PartialEq)]
struct Seconds {
    system: f64,
    user: f64,
    children_system: f64,
    children_user: f64,
}

pub(super) fn section(_: &Server, text: &mut String) {
    let of_process = std::fs::read_to_string("/proc/self/stat").ok();
    let of_process = of_process.and_then(|line| seconds(&line)).unwrap_or_default();
    let line = |value: f64| format!("{value:.6}");
    super::lines(
        text,
        "CPU",
        &[
            ("used_cpu_sys", line(of_process.system)),
            ("used_cpu_user", line(of_process.user)),
            ("used_cpu_sys_children", line(of_process.children_system)),
            ("used_cpu_user_children", line(of_process.children_user)),
        ],
    );
}

/// Takes a line of `/proc/PID/stat` apart. The program's name, in brackets, may have brackets and spaces
/// itself; the fields behind it are numbered from 3.
fn seconds(line: &str) -> Option<Seconds> {
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let seconds = |number: usize| Some(fields.get(number - 3)?.parse::<f64>().ok()? / TICKS_OF_A_SECOND);
    Some(Seconds {
        user: seconds(14)?,
        system: seconds(15)?,
        children_user: seconds(16)?,
        children_system: seconds(17)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_a_name_with_brackets_and_spaces() {
        let line = "7 (a) b) R 1 7 7 0 -1 4194304 2 3 4 5 150 25 3 1 20 0 1 0 9";
        let expected = Seconds { user: 1.5, system: 0.25, children_user: 0.03, children_system: 0.01 };
        assert_eq!(seconds(line), Some(expected));
        assert_eq!(seconds("7 (a) R 1"), None);
        assert_eq!(seconds(""), None);
    }
}
