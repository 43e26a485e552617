//! `proto`: generates the code of the gRPC service from its .proto file, without `protoc`.
//!
//! The code is kept in the repository, so that building needs no compiler of .proto files; `--check` says
//! whether it is what the file says. The compiler is built only for this command: cargo's feature `proto`.

use crate::usage_error;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask proto [--check]";

/// Generates the code, or compares it with what is kept.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    match arguments {
        [] => generate(false),
        ["--check"] => generate(true),
        _ => usage_error(USAGE),
    }
}

/// Runs this command in a build that has the compiler.
#[cfg(not(feature = "proto"))]
fn generate(is_check: bool) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.args(["run", "--quiet", "--locked", "--package", "xtask", "--features", "proto", "--", "proto"]);
    command.args(is_check.then_some("--check"));
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "proto")]
fn generate(is_check: bool) -> ExitCode {
    match compiler::generate(is_check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo xtask proto: {message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "proto")]
mod compiler {
    use crate::repository;
    use prost::Message;
    use std::fs;
    use std::path::Path;

    /// Where the .proto files are.
    const SOURCES: &str = "crates/grpc/proto";
    const FILE: &str = "esker/v1/esker.proto";
    /// Where the code is.
    const KEPT: &str = "crates/grpc/src/generated";
    /// The code, and the descriptors that reflection tells.
    const CODE: &str = "esker.v1.rs";
    const DESCRIPTORS: &str = "esker.v1.bin";

    pub(super) fn generate(is_check: bool) -> Result<(), String> {
        let root = repository::root();
        let kept = root.join(KEPT);
        let made = std::env::temp_dir().join(format!("esker-proto-{}", std::process::id()));
        let result = make(&root.join(SOURCES), &made).and_then(|()| {
            [CODE, DESCRIPTORS].iter().try_for_each(|file| keep(&made.join(file), &kept.join(file), is_check))
        });
        let _cleared = fs::remove_dir_all(&made);
        result
    }

    fn make(sources: &Path, out: &Path) -> Result<(), String> {
        fs::create_dir_all(out).map_err(|error| format!("cannot create {}: {error}", out.display()))?;
        let descriptors = protox::compile([FILE], [sources]).map_err(|error| format!("{error:?}"))?;
        let bytes = descriptors.encode_to_vec();
        fs::write(out.join(DESCRIPTORS), bytes)
            .map_err(|error| format!("cannot write to {}: {error}", out.display()))?;
        tonic_prost_build::configure()
            .bytes(".")
            .build_transport(false)
            .out_dir(out)
            .emit_rerun_if_changed(false)
            .compile_fds(descriptors)
            .map_err(|error| format!("{FILE}: {error}"))
    }

    fn keep(made: &Path, kept: &Path, is_check: bool) -> Result<(), String> {
        let read =
            |path: &Path| fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        let expected = read(made)?;
        if !is_check {
            return fs::write(kept, expected)
                .map_err(|error| format!("cannot write {}: {error}", kept.display()));
        }
        if read(kept)? == expected {
            return Ok(());
        }
        Err(format!("{} is not what {FILE} says: run `cargo xtask proto`", kept.display()))
    }
}
