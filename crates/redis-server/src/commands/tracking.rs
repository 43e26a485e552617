//! Commands of client tracking: CLIENT TRACKING, CACHING, TRACKINGINFO, GETREDIR.

use super::Family;
use crate::call::Call;
use crate::clients::TrackingMode;
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX, shown};
use crate::tracking::{MAX_PREFIX_BYTES, MAX_PREFIXES};
use esker_resp::integer::parse_integer;

pub(crate) const COMMANDS: Family = &[
    ("client|tracking", tracking),
    ("client|caching", caching),
    ("client|trackinginfo", information),
    ("client|getredir", redirection),
];

fn tracking(call: &mut Call<'_, '_>) -> Outcome {
    let (mode, prefixes) = options(call)?;
    if call.is_word(2, "on") {
        check(call, mode, &prefixes)?;
        let client = call.server.clients.get(call.session.id);
        // A client within the process has no connection that messages could go to.
        let client = client.ok_or("ERR this client cannot receive messages")?;
        call.server.tracking.begin(&client, mode, &prefixes);
        call.session.set_tracking(Some(mode));
    } else if call.is_word(2, "off") {
        call.server.tracking.end(call.session.id);
        call.session.set_tracking(None);
    } else {
        return Err(SYNTAX.into());
    }
    call.reply.status(b"OK");
    Ok(())
}

fn options<'c>(call: &Call<'c, '_>) -> Outcome<(TrackingMode, Vec<&'c [u8]>)> {
    let (mut mode, mut prefixes, mut at) = (TrackingMode::default(), Vec::new(), 3);
    while at < call.args.len() {
        let value = call.args.get(at + 1).copied();
        match value {
            Some(value) if call.is_word(at, "redirect") => {
                if mode.redirection != 0 {
                    return Err("ERR A client can only redirect to a single other client".into());
                }
                let id = parse_integer(value).ok_or(NOT_AN_INTEGER)?;
                let known = u64::try_from(id).ok().filter(|id| call.server.clients.get(*id).is_some());
                mode.redirection = known.ok_or("ERR The client ID you want redirect to does not exist")?;
                at += 1;
            }
            Some(value) if call.is_word(at, "prefix") => {
                prefixes.push(value);
                at += 1;
            }
            _ if call.is_word(at, "bcast") => mode.broadcasts = true,
            _ if call.is_word(at, "optin") => mode.opts_in = true,
            _ if call.is_word(at, "optout") => mode.opts_out = true,
            _ if call.is_word(at, "noloop") => mode.skips_own = true,
            _ => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    Ok((mode, prefixes))
}

/// Whether the options fit together and to what the client tracks already.
fn check(call: &Call<'_, '_>, mode: TrackingMode, prefixes: &[&[u8]]) -> Outcome {
    let before = call.session.tracking.map(|tracking| tracking.mode);
    let refusal = match before {
        _ if !mode.broadcasts && !prefixes.is_empty() => {
            "ERR PREFIX option requires BCAST mode to be enabled"
        }
        Some(before) if before.broadcasts != mode.broadcasts => {
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
        }
        _ if mode.broadcasts && (mode.opts_in || mode.opts_out) => {
            "ERR OPTIN and OPTOUT are not compatible with BCAST"
        }
        _ if mode.opts_in && mode.opts_out => "ERR You can't specify both OPTIN mode and OPTOUT mode",
        Some(before) if (mode.opts_in && before.opts_out) || (mode.opts_out && before.opts_in) => {
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
        }
        _ => return check_prefixes(call, prefixes),
    };
    Err(refusal.into())
}

/// Whether no prefix begins with another one of the client.
fn check_prefixes(call: &Call<'_, '_>, prefixes: &[&[u8]]) -> Outcome {
    let (known, _) = call.server.tracking.of(call.session.id);
    let bytes = known.iter().map(|prefix| prefix.len()).sum::<usize>()
        + prefixes.iter().map(|prefix| prefix.len()).sum::<usize>();
    if known.len() + prefixes.len() > MAX_PREFIXES || bytes > MAX_PREFIX_BYTES {
        return Err(format!(
            "ERR a client has at most {MAX_PREFIXES} prefixes and {MAX_PREFIX_BYTES} bytes of them"
        )
        .into());
    }
    for (at, prefix) in prefixes.iter().enumerate() {
        if let Some(other) = known.iter().find(|other| overlap(prefix, other)) {
            return Err(overlapping(prefix, b"an existing prefix", other));
        }
        if let Some(other) = prefixes[at + 1..].iter().find(|other| overlap(prefix, other)) {
            return Err(overlapping(prefix, b"another provided prefix", other));
        }
    }
    Ok(())
}

fn overlap(one: &[u8], other: &[u8]) -> bool {
    let length = one.len().min(other.len());
    one[..length] == other[..length]
}

fn overlapping(prefix: &[u8], what: &[u8], other: &[u8]) -> Failure {
    [
        b"ERR Prefix '",
        shown(prefix),
        b"' overlaps with ",
        what,
        b" '",
        shown(other),
        b"'. Prefixes for a single client must not overlap.",
    ]
    .concat()
    .into()
}

fn caching(call: &mut Call<'_, '_>) -> Outcome {
    let (says_yes, says_no) = (call.is_word(2, "yes"), call.is_word(2, "no"));
    let Some(tracking) = &mut call.session.tracking else {
        return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled".into());
    };
    if says_yes && !tracking.mode.opts_in {
        return Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.".into());
    }
    if says_no && !tracking.mode.opts_out {
        return Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.".into());
    }
    if !says_yes && !says_no {
        return Err(SYNTAX.into());
    }
    tracking.is_excepted = true;
    call.reply.status(b"OK");
    Ok(())
}

fn information(call: &mut Call<'_, '_>) -> Outcome {
    let tracking = call.session.tracking.unwrap_or_default();
    let is_on = call.session.tracking.is_some();
    let (prefixes, is_broken) = call.server.tracking.of(call.session.id);
    let mode = tracking.mode;
    let flags: Vec<&str> = [
        (true, if is_on { "on" } else { "off" }),
        (mode.broadcasts, "bcast"),
        (mode.opts_in, "optin"),
        (mode.opts_in && tracking.is_excepted, "caching-yes"),
        (mode.opts_out, "optout"),
        (mode.opts_out && tracking.is_excepted, "caching-no"),
        (mode.skips_own, "noloop"),
        (is_broken, "broken_redirect"),
    ]
    .into_iter()
    .filter_map(|(is_set, flag)| is_set.then_some(flag))
    .collect();
    call.reply.map(3);
    call.reply.bulk(b"flags");
    call.reply.set(flags.len());
    flags.iter().for_each(|flag| call.reply.bulk(flag.as_bytes()));
    call.reply.bulk(b"redirect");
    call.reply.integer(if is_on { mode.redirection as i64 } else { -1 });
    call.reply.bulk(b"prefixes");
    call.reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| call.reply.bulk(prefix));
    Ok(())
}

fn redirection(call: &mut Call<'_, '_>) -> Outcome {
    let redirection = call.session.tracking.map_or(-1, |tracking| tracking.mode.redirection as i64);
    call.reply.integer(redirection);
    Ok(())
}
