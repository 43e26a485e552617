//! The replies of the subcommands of `ACL`.

use super::check::Denied;
use super::command_set::CATEGORIES;
use super::describe::{channel_rules, command_rules, key_rules};
use super::selector::Selector;
use super::sha256::hex;
use super::user::User;
use super::users::Users;
use crate::flags::Categories;
use crate::names::Names;
use crate::reply::Reply;
use crate::table;
use crate::text::before_nul;
use esker_resp::integer::parse_integer;

/// The most bits that `ACL GENPASS` makes.
const PASSWORD_BITS_MAX: i64 = 4_096;
/// The bits that it makes if none are asked for.
const PASSWORD_BITS: i64 = 256;

impl Users {
    /// The reply of `ACL LIST`.
    pub fn list(&self) -> Reply {
        Reply::Array(self.lines().map(Reply::bytes).collect())
    }

    /// The reply of `ACL USERS`.
    pub fn names(&self) -> Reply {
        Reply::Array(self.iter().map(|(name, _)| Reply::bytes(name.to_vec())).collect())
    }

    /// The reply of `ACL GETUSER name`: null without such a user.
    pub fn get_user(&self, name: &[u8]) -> Reply {
        self.user(name).map_or(Reply::Null, describe_user)
    }

    /// The reply of `ACL DRYRUN user command argument ...`: whether the user may run it.
    pub fn dry_run<A: AsRef<[u8]>>(&self, names: &Names, name: &[u8], arguments: &[A]) -> Reply {
        let Some(user) = self.user(name) else {
            return Reply::error([b"User '", before_nul(name), b"' not found"].concat());
        };
        let Some(command) = names.resolve(arguments) else {
            let called = arguments.first().map_or(&b""[..], |word| before_nul(word.as_ref()));
            return Reply::error([b"Command '", called, b"' not found"].concat());
        };
        if !command.accepts(arguments.len()) {
            return Reply::error(format!("wrong number of arguments for '{}' command", command.name()));
        }
        let argument = |at: usize| before_nul(arguments[at].as_ref());
        match user.check(command, arguments, &mut Vec::new()) {
            Ok(()) => Reply::OK,
            Err(Denied::Command) => {
                let text = format!("This user has no permissions to run the '{}' command", command.name());
                Reply::bytes(text.into_bytes())
            }
            Err(Denied::Key(at)) => no_access(argument(at), b"key"),
            Err(Denied::Channel(at)) => no_access(argument(at), b"channel"),
        }
    }
}

fn no_access(argument: &[u8], kind: &[u8]) -> Reply {
    Reply::bytes([b"This user has no permissions to access the '", argument, b"' ", kind].concat())
}

fn describe_user(user: &User) -> Reply {
    let flags = user.flag_names().map(Reply::text).collect();
    let passwords = user.passwords.iter().map(|(digest, ())| Reply::bytes(hex(digest).into_bytes()));
    let mut pairs = vec![
        (Reply::text("flags"), Reply::Set(flags)),
        (Reply::text("passwords"), Reply::Array(passwords.collect())),
    ];
    pairs.extend(describe_selector(&user.selectors[0]));
    let others = user.selectors[1..].iter().map(|selector| Reply::Map(describe_selector(selector).to_vec()));
    pairs.push((Reply::text("selectors"), Reply::Array(others.collect())));
    Reply::Map(pairs)
}

fn describe_selector(selector: &Selector) -> [(Reply, Reply); 3] {
    [
        (Reply::text("commands"), Reply::bytes(command_rules(selector))),
        (Reply::text("keys"), Reply::bytes(key_rules(selector))),
        (Reply::text("channels"), Reply::bytes(channel_rules(selector))),
    ]
}

/// The reply of `ACL CAT [category]`: the categories, or the commands of one.
pub fn category_list(category: Option<&[u8]>) -> Reply {
    let Some(name) = category else {
        return Reply::Array(CATEGORIES.iter().map(|category| Reply::text(category.name)).collect());
    };
    let name = before_nul(name);
    let Some(category) = Categories::named(name) else {
        let shown = &name[..name.len().min(128)];
        return Reply::error([b"Unknown category '", shown, b"'"].concat());
    };
    let members = table::all().iter().filter(|command| command.categories().contains(category));
    Reply::Array(members.map(|command| Reply::text(command.name())).collect())
}

/// The reply of `ACL GENPASS [bits]`: a password in hexadecimal digits of as many bits, rounded up to four.
///
/// `fill` fills bytes with secure randomness.
pub fn genpass(bits: Option<&[u8]>, fill: impl FnOnce(&mut [u8])) -> Reply {
    let bits = match bits {
        None => PASSWORD_BITS,
        Some(text) => match parse_integer(text) {
            Some(bits) => bits,
            None => return Reply::error("value is not an integer or out of range"),
        },
    };
    if bits <= 0 || bits > PASSWORD_BITS_MAX {
        return Reply::error(format!(
            "ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {PASSWORD_BITS_MAX}"
        ));
    }
    let digits = usize::try_from((bits + 3) / 4).unwrap_or_default();
    let mut bytes = vec![0; digits.div_ceil(2)];
    fill(&mut bytes);
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    Reply::bytes(text.into_bytes())
}
