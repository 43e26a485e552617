//! The sources of Lua contain every patch beside them.

#![expect(clippy::disallowed_methods, reason = "reads the files of this package")]

use std::fs;
use std::path::Path;

/// What the security fixes of Lua 5.1 look like in its sources.
const FIXES: [(&str, &str, &str); 15] = [
    ("CVE-2025-49844", "lparser.c", "setsvalue2s(L, L->top, source);"),
    ("CVE-2025-46817", "lbaselib.c", "n = (unsigned int)e - (unsigned int)i;"),
    ("CVE-2025-46819", "llex.c", "static size_t skip_sep (LexState *ls)"),
    ("CVE-2025-46818", "lvm.c", "luaH_checkwritable(L, h);"),
    ("CVE-2014-5461", "ldo.c", "luaD_checkstack(L, p->maxstacksize + p->numparams);"),
    ("bytecode", "ldo.c", "tf = luaY_parser(L, p->z, &p->buff, p->name);"),
    ("hash", "lstring.c", "for (l1=l; l1>=1; l1--)"),
    ("uncatchable errors", "lbaselib.c", "if (lua_isstopping(L)) return lua_stop(L);"),
    ("shared counts", "lbaselib.c", "lua_takecount(L, co);"),
    ("work", "lstrlib.c", "static void matchwork"),
    ("depth", "lstrlib.c", "if (++ms->depth > MAXMATCHDEPTH)"),
    ("references", "lapi.c", "? MAXREFERENCES : LUAI_MAXCSTACK + ROOMBESIDE;"),
    ("reserved stack", "ldo.c", "if (L->ci->top < L->top + LUA_MINSTACK)"),
    ("room for the status", "lbaselib.c", "luaL_checkstack(L, 1, \"too many results\");"),
    ("hard tests", "lgc.h", "if (condhardmemtests || G(L)->totalbytes >= G(L)->GCthreshold)"),
];

#[test]
fn every_fix_is_in_the_sources() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua-5.1.5/src");
    for (name, file, text) in FIXES {
        let source = fs::read(sources.join(file)).expect("a source of Lua");
        assert!(String::from_utf8_lossy(&source).contains(text), "{name}: {file} lacks {text:?}");
    }
}

/// A patch that was taken back, or a source that was replaced, shows as a line that is missing.
#[test]
fn every_line_that_a_patch_adds_is_in_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua-5.1.5");
    let mut patches: Vec<_> = fs::read_dir(folder.join("patches"))
        .expect("patches")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    patches.sort();
    assert_eq!(patches.len(), FIXES.len(), "a patch has a fix in the list above");
    // A later patch may change what an earlier one added.
    let text: Vec<String> = patches.iter().map(|path| fs::read_to_string(path).expect("a patch")).collect();
    let removed: Vec<&str> =
        text.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix('-')).collect();
    for (path, text) in patches.iter().zip(&text) {
        let mut source = String::new();
        for line in text.lines() {
            if let Some(file) = line.strip_prefix("+++ ") {
                let bytes = fs::read(folder.join(file.trim())).expect("the patched file");
                source = String::from_utf8_lossy(&bytes).into_owned();
            } else if let Some(added) = line.strip_prefix('+') {
                let is_there = source.lines().any(|line| line == added) || removed.contains(&added);
                assert!(is_there, "{}: {added:?} is missing", path.display());
            }
        }
    }
}
