//! Compiles the patched Lua 5.1.5 and the functions beside it into one static library.

#![expect(clippy::disallowed_methods, reason = "lists the sources of this package")]

use std::path::PathBuf;

fn main() {
    let sources = PathBuf::from("lua-5.1.5/src");
    println!("cargo:rerun-if-changed=lua-5.1.5/src");
    println!("cargo:rerun-if-changed=glue");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&sources)
        .expect("the sources of Lua are in the package")
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    files.push(PathBuf::from("glue/glue.c"));
    cc::Build::new()
        .files(files)
        .include(&sources)
        .warnings(false)
        // The whole archive, because mlua-sys comes behind this crate for linkers that read once, left to
        // right.
        .link_lib_modifier("+whole-archive")
        .compile("esker_lua51");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family.contains("unix")) {
        println!("cargo:rustc-link-lib=m");
    }
}
