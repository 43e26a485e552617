//! Builds the test programs of some suites, with the bugs in them.

use super::bank::Suite;
use crate::repository;
use cargo_metadata::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The test programs, by package and target.
pub(super) struct Binaries(BTreeMap<(String, String), PathBuf>);

impl Binaries {
    pub(super) fn build(suites: &[Suite]) -> Result<Binaries, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
        let packages: BTreeSet<_> = suites.iter().map(|suite| suite.package).collect();
        let targets: BTreeSet<_> = suites.iter().map(|suite| suite.target).collect();
        for package in packages {
            command.args(["--package", package]);
        }
        for target in targets {
            match target {
                "lib" => command.arg("--lib"),
                target => command.args(["--test", target]),
            };
        }
        // Apart from other builds: the switch changes every crate.
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| repository::root().join("target"), PathBuf::from);
        command.env("CARGO_TARGET_DIR", target.join("bugs"));
        command.env("RUSTFLAGS", "--cfg esker_planted_bugs");
        command.current_dir(repository::root()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot run cargo: {error}"))?;
        let stdout = child.stdout.take().ok_or("cargo has no output")?;
        let mut programs = BTreeMap::new();
        for message in Message::parse_stream(BufReader::new(stdout)) {
            let message = message.map_err(|error| format!("cargo's output: {error}"))?;
            let Message::CompilerArtifact(artifact) = message else { continue };
            let Some(program) = artifact.executable.filter(|_| artifact.profile.test) else { continue };
            let manifest = artifact.manifest_path.parent().and_then(|folder| folder.file_name());
            let package = match manifest.unwrap_or_default() {
                "esker" => "esker".to_owned(),
                folder => format!("esker-{folder}"),
            };
            let is_lib = artifact.target.kind.iter().any(|kind| kind.to_string() == "lib");
            let target = if is_lib { "lib".to_owned() } else { artifact.target.name };
            programs.insert((package, target), program.into());
        }
        match child.wait() {
            Ok(status) if status.success() => Ok(Binaries(programs)),
            _ => Err("the tests do not build with the bugs in them".to_owned()),
        }
    }

    pub(super) fn of(&self, suite: &Suite) -> Result<&PathBuf, String> {
        let program = self.0.get(&(suite.package.to_owned(), suite.target.to_owned()));
        program.ok_or_else(|| format!("cargo built no test program of {suite}"))
    }
}
