//! GEOSEARCH and GEORADIUS: the members near a position, to the client or into a key.

use super::arguments::{circle, position, rectangle};
use super::{reply_distance, reply_position};
use crate::call::Call;
use crate::commands::sorted_sets::{open, store};
use crate::failure::{Outcome, SYNTAX};
use esker_redis_data::geo::{Area, Position, Shape, search_ranges};
use esker_redis_data::value;
use esker_redis_store::Txn;
use esker_redis_store::types::sorted_set::{ScoreBound, SortedSet, Span};

const UNKNOWN_MEMBER: &str = "ERR could not decode requested zset member";

/// The forms of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// GEORADIUS: position and circle come first.
    Around { stores: bool },
    /// GEORADIUSBYMEMBER: member and circle come first.
    AroundMember { stores: bool },
    /// GEOSEARCH.
    Search,
    /// GEOSEARCHSTORE: the key to store in comes first.
    SearchStore,
}

pub(super) fn georadius(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::Around { stores: true })
}

pub(super) fn georadius_ro(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::Around { stores: false })
}

pub(super) fn georadiusbymember(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::AroundMember { stores: true })
}

pub(super) fn georadiusbymember_ro(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::AroundMember { stores: false })
}

pub(super) fn geosearch(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::Search)
}

pub(super) fn geosearchstore(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::SearchStore)
}

/// What is asked for.
#[derive(Default)]
struct GeoQuery {
    /// Whether a centre is named; its place is unknown if the key is not there.
    has_centre: bool,
    by_member: bool,
    centre: Option<Position>,
    shape: Option<Shape>,
    /// Metres of the unit of the shape.
    unit: f64,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    /// Nearest first, or farthest.
    descending: Option<bool>,
    count: Option<u64>,
    any: bool,
    store_at: Option<usize>,
    stores_distance: bool,
}

/// A member that was found.
struct Found {
    member: Vec<u8>,
    score: f64,
    metres: f64,
}

impl GeoQuery {
    /// Reads the arguments that come first in GEORADIUS and GEORADIUSBYMEMBER.
    fn parse_beginning(
        &mut self,
        call: &Call<'_, '_>,
        set: Option<&SortedSet>,
        form: Form,
    ) -> Outcome<usize> {
        match form {
            Form::Around { .. } => {
                self.centre = Some(position(call, 2)?);
                self.take_shape(circle(call, 4)?);
                Ok(6)
            }
            Form::AroundMember { .. } => {
                // Without the key, Redis does not read the circle.
                if let Some(set) = set {
                    self.centre = Some(member_position(call, set, 2)?);
                    self.take_shape(circle(call, 3)?);
                }
                Ok(5)
            }
            Form::Search => Ok(2),
            Form::SearchStore => {
                self.store_at = Some(1);
                Ok(3)
            }
        }
    }

    fn take_shape(&mut self, (shape, unit): (Shape, f64)) {
        (self.shape, self.unit) = (Some(shape), unit);
    }

    /// Reads the option at `at`; returns how many values it has.
    fn parse_option(
        &mut self,
        call: &Call<'_, '_>,
        set: Option<&SortedSet>,
        form: Form,
        at: usize,
    ) -> Outcome<usize> {
        let values = call.args.len() - at - 1;
        let is_search = matches!(form, Form::Search | Form::SearchStore);
        let may_store = matches!(form, Form::Around { stores: true } | Form::AroundMember { stores: true });
        let word = call.args[at].to_ascii_lowercase();
        match word.as_slice() {
            b"withdist" => self.with_distance = true,
            b"withhash" => self.with_hash = true,
            b"withcoord" => self.with_position = true,
            b"any" => self.any = true,
            b"asc" => self.descending = Some(false),
            b"desc" => self.descending = Some(true),
            b"count" if values >= 1 => {
                let count = u64::try_from(call.integer(at + 1)?).ok().filter(|count| *count > 0);
                self.count = Some(count.ok_or("ERR COUNT must be > 0")?);
                return Ok(1);
            }
            b"store" | b"storedist" if values >= 1 && may_store => {
                (self.store_at, self.stores_distance) = (Some(at + 1), word == b"storedist");
                return Ok(1);
            }
            b"storedist" if form == Form::SearchStore => self.stores_distance = true,
            _ if is_search => return self.parse_search_option(call, set, at, &word),
            _ => return Err(SYNTAX.into()),
        }
        Ok(0)
    }

    fn parse_search_option(
        &mut self,
        call: &Call<'_, '_>,
        set: Option<&SortedSet>,
        at: usize,
        word: &[u8],
    ) -> Outcome<usize> {
        let values = call.args.len() - at - 1;
        let is_box = matches!(self.shape, Some(Shape::Box { .. }));
        let is_circle = matches!(self.shape, Some(Shape::Circle { .. }));
        match word {
            b"frommember" if values >= 1 && (!self.has_centre || self.by_member) => {
                if let Some(set) = set {
                    self.centre = Some(member_position(call, set, at + 1)?);
                }
                (self.has_centre, self.by_member) = (true, true);
                Ok(1)
            }
            b"fromlonlat" if values >= 2 && !self.by_member => {
                self.centre = Some(position(call, at + 1)?);
                self.has_centre = true;
                Ok(2)
            }
            b"byradius" if values >= 2 && !is_box => {
                self.take_shape(circle(call, at + 1)?);
                Ok(2)
            }
            b"bybox" if values >= 3 && !is_circle => {
                self.take_shape(rectangle(call, at + 1)?);
                Ok(3)
            }
            _ => Err(SYNTAX.into()),
        }
    }

    fn check(&self, call: &Call<'_, '_>, form: Form) -> Outcome {
        let name = String::from_utf8_lossy(call.args[0]);
        if self.store_at.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            let what = if form == Form::SearchStore { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )
            .into());
        }
        let is_search = matches!(form, Form::Search | Form::SearchStore);
        if is_search && !self.has_centre {
            return Err(
                format!("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}").into()
            );
        }
        if is_search && self.shape.is_none() {
            return Err(format!("ERR exactly one of BYRADIUS and BYBOX can be specified for {name}").into());
        }
        if self.any && self.count.is_none() {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        Ok(())
    }

    /// The members in the area, in the order in which they are answered.
    fn find(&self, txn: &Txn<'_>, set: &SortedSet) -> Outcome<Vec<Found>> {
        let mut found = Vec::new();
        let (Some(centre), Some(shape)) = (self.centre, self.shape) else { return Ok(found) };
        let area = Area { centre, shape };
        let enough = self.count.filter(|_| self.any).unwrap_or(u64::MAX);
        for (from, to) in search_ranges(&area) {
            if found.len() as u64 >= enough {
                break;
            }
            let bound = |score, is_exclusive| ScoreBound { score, is_exclusive };
            let span = Span::of_scores(bound(from, false), bound(to, true));
            set.walk(txn, &span, false, |member, score| {
                if let Some(metres) = area.distance_within(Position::of_score(score)) {
                    found.push(Found { member: member.to_vec(), score, metres });
                }
                (found.len() as u64) < enough
            })?;
        }
        // The nearest are wanted if some are, unless any will do.
        let descending = self.descending.or(self.count.filter(|_| !self.any).map(|_| false));
        if let Some(descending) = descending {
            found.sort_by(|a, b| {
                let order = a.metres.total_cmp(&b.metres);
                if descending { order.reverse() } else { order }
            });
        }
        found.truncate(self.count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX));
        Ok(found)
    }

    fn answer(&self, call: &mut Call<'_, '_>, found: &[Found]) {
        let details = [self.with_distance, self.with_hash, self.with_position];
        let details = details.iter().filter(|is_wanted| **is_wanted).count();
        call.reply.array(found.len());
        for Found { member, score, metres } in found {
            if details > 0 {
                call.reply.array(1 + details);
            }
            call.reply.bulk(member);
            if self.with_distance {
                reply_distance(&mut call.reply, metres / self.unit);
            }
            if self.with_hash {
                call.reply.integer(*score as i64);
            }
            if self.with_position {
                reply_position(&mut call.reply, Position::of_score(*score));
            }
        }
    }
}

fn member_position(call: &Call<'_, '_>, set: &SortedSet, at: usize) -> Outcome<Position> {
    let score = set.score(call.txn, call.args[at])?;
    Ok(Position::of_score(score.ok_or(UNKNOWN_MEMBER)?))
}

fn search(call: &mut Call<'_, '_>, form: Form) -> Outcome {
    let source = if form == Form::SearchStore { 2 } else { 1 };
    let set = open(call, source)?;
    let mut query = GeoQuery { unit: 1.0, ..GeoQuery::default() };
    let mut at = query.parse_beginning(call, set.as_ref(), form)?;
    while at < call.args.len() {
        at += 1 + query.parse_option(call, set.as_ref(), form, at)?;
    }
    query.check(call, form)?;
    let found = match &set {
        Some(set) => query.find(call.txn, set)?,
        None => Vec::new(),
    };
    let Some(store_at) = query.store_at else {
        query.answer(call, &found);
        return Ok(());
    };
    let mut members = value::SortedSet::default();
    for Found { member, score, metres } in &found {
        members.push(member, if query.stores_distance { metres / query.unit } else { *score });
    }
    let is_search = form == Form::SearchStore;
    store(call, store_at, &members, if is_search { "geosearchstore" } else { "georadiusstore" })?;
    call.reply.integer(found.len() as i64);
    Ok(())
}
