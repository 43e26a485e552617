//! Completions and manual pages.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use std::process::Command;

#[test]
fn there_is_a_page_for_each_command() {
    let dir = WorkingDir::new();
    std::fs::create_dir(dir.path().join("man")).unwrap();
    let said = dir.ok("man man");
    let pages = std::fs::read_dir(dir.path().join("man")).unwrap().count();
    assert!(pages > 30 && said.starts_with(&format!("{pages} pages, from esker.1 on")), "{said}");
    let page = |name: &str| String::from_utf8(dir.read(&format!("man/{name}.1"))).unwrap();
    assert!(page("esker").contains(".TH ESKER 1"));
    assert!(page("esker-serve").contains("check\\-config") && page("esker-serve").contains("max\\-clients"));
    assert!(page("esker-backup-prune").contains("keep"));
    assert!(!dir.path().join("man/esker-help.1").exists());
    assert_eq!(dir.run("man nowhere").code, 2);
}

#[test]
fn completions_know_the_commands_and_are_valid() {
    let dir = WorkingDir::new();
    for (shell, part) in [("bash", "_esker()"), ("zsh", "#compdef esker"), ("fish", "complete -c esker")] {
        let script = dir.ok(&format!("completions {shell}"));
        for word in [part, "quarantine", "durability"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        dir.write(shell, &script);
        // Of the shells that the machine has.
        if let Ok(ran) = Command::new(shell).arg("-n").arg(dir.path().join(shell)).output() {
            assert!(ran.status.success(), "{shell}: {}", String::from_utf8_lossy(&ran.stderr));
        } else {
            eprintln!("skipped: there is no {shell}");
        }
    }
    assert_eq!(dir.run("completions tcsh").code, 2);
}
