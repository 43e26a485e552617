//! Targets of fuzzing: any bytes as rules and files of users, and as arguments of commands.

use crate::acl::Users;
use crate::keys::keys;
use crate::table;

/// Takes lines as the rules of a user, then all of it as a file.
///
/// # Panics
///
/// If a refused change changes anything, or if users that were written cannot be read again.
pub fn acl(bytes: &[u8]) {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let mut users = Users::new(false);
    for rules in lines.chunks(3) {
        let known = users.save();
        if users.set_user(b"ann", rules).is_err() {
            assert!(users.save() == known, "refused rules changed a user");
        }
    }
    written_users_can_be_read(&users);
    let known = users.save();
    match users.load(bytes, b"users.acl") {
        Ok(()) => written_users_can_be_read(&users),
        Err(_) => assert!(users.save() == known, "a refused file changed users"),
    }
}

/// A pattern `*` that has company is written so that it can be read; once read it stands for all alone.
fn written_users_can_be_read(users: &Users) {
    let written = users.save();
    let mut read = Users::new(false);
    if let Err(error) = read.load(&written, b"f") {
        panic!("what was written cannot be read: {}", String::from_utf8_lossy(&error));
    }
    let settled = read.save();
    assert!(read.load(&settled, b"f").is_ok() && read.save() == settled, "reading changes what is written");
}

/// Takes lines as the arguments of a command that the first byte chooses.
///
/// # Panics
///
/// If a key is no argument.
pub fn command_keys(bytes: &[u8]) {
    let [chosen, rest @ ..] = bytes else { return };
    let command = &table::all()[usize::from(*chosen) * table::count_with_subcommands() / 256];
    let names = command.name().split('|').map(str::as_bytes);
    let arguments: Vec<&[u8]> = names.chain(rest.split(|byte| *byte == b'\n')).collect();
    let mut found = Vec::new();
    keys(command, &arguments, &mut found);
    assert!(found.iter().all(|key| (1..arguments.len()).contains(&key.position)), "a key is no argument");
    assert!(found.len() <= arguments.len(), "more keys than arguments");
}
