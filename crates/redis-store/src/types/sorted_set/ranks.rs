//! Rank index of a large sorted set: a tree of counts over the order of its members.
//!
//! A node of level 1 stands for neighbouring members, a node of a higher level for neighbouring nodes below
//! it: those from its place to the place of the next node of its level. It knows how many children and how
//! many members they are. The first node of each level has the empty place, before all members. The number
//! of nodes of the highest level is kept by the record.
//!
//! What holds:
//! * ZR1. On each level the members of all nodes are the members of the set, each counted by the node whose
//!   part of the order it lies in.
//! * ZR2. The place of a node is also that of a node on each level below it, so a node's children are exactly
//!   the nodes of the level below in its part of the order.
//! * ZR3. No node has more than [`MAX_CHILDREN`] children, and there are no more nodes on the highest level.
//! * ZR4. A node without members is the first child of its parent, or the first node of the highest level.

use crate::layout::{Space, object_key};
use crate::rank_nodes::{Family, RankNode};
use crate::txn::Txn;
use crate::types::malformed;
use esker::{Result, Value};

/// Members from which a set has the index: a rank in a smaller one is counted in a third of a millisecond.
pub(super) const MIN_MEMBERS: u64 = if cfg!(test) { 256 } else { 4096 };

/// Children of a node. A change reads and writes one node of each level, a rank reads half the children of
/// one node of each level: so few levels and not too many children. One level does for 700,000 members.
/// Tests have few, for trees of many levels.
pub(super) const MAX_CHILDREN: u32 = if cfg!(test) { 8 } else { 1024 };

/// Children of a node that is made together with its neighbours.
const CHILDREN_AT_FIRST: u32 = MAX_CHILDREN / 2;

/// The index of one set, as its record keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranks {
    /// Levels; 0 if there is no index.
    pub(super) levels: u8,
    /// Nodes of the highest level.
    pub(super) top_nodes: u32,
}

fn decode(key: &[u8], value: &Value) -> Result<RankNode> {
    let place = key.get(9..).map(<[u8]>::to_vec);
    let numbers = value.split_first_chunk::<8>().and_then(|(members, children)| {
        Some((u64::from_le_bytes(*members), u32::from_le_bytes(children.try_into().ok()?)))
    });
    match (place, numbers) {
        (Some(place), Some((members, children))) => Ok(RankNode { place, members, children }),
        _ => Err(malformed("node of a rank index")),
    }
}

fn put(txn: &mut Txn<'_>, object: u64, level: u8, node: &RankNode) -> Result<()> {
    let mut value = [0; 12];
    value[..8].copy_from_slice(&node.members.to_le_bytes());
    value[8..].copy_from_slice(&node.children.to_le_bytes());
    txn.put(Space::Orders, &key(object, level, &node.place), &value)
}

/// The key of a node, and on level 0 of a member in the order.
pub(super) fn key(object: u64, level: u8, place: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9 + place.len());
    bytes.extend_from_slice(&object.to_be_bytes());
    bytes.push(level);
    bytes.extend_from_slice(place);
    bytes
}

/// The end of the keys of a level.
pub(super) fn level_end(object: u64, level: u8) -> Vec<u8> {
    object_key(object, &[level + 1])
}

/// The nodes of a level below a node with this place, or of the highest level: there are `count`.
fn family(txn: &mut Txn<'_>, key: &[u8], end: Vec<u8>, count: u32) -> Result<Family> {
    if let Some(family) = txn.take_rank_nodes(key) {
        return Ok(family);
    }
    let nodes = txn.range(Space::Orders, key.to_vec()..end).take(count as usize);
    nodes.map(|entry| entry.and_then(|(key, value)| decode(&key, &value))).collect()
}

/// Counts a change of one member at a place: one more, which is in the order already, or one less.
pub(super) fn adjust(
    txn: &mut Txn<'_>,
    ranks: &mut Ranks,
    object: u64,
    place: &[u8],
    is_added: bool,
) -> Result<()> {
    let mut path: Vec<RankNode> = Vec::with_capacity(usize::from(ranks.levels));
    let mut families = Vec::with_capacity(usize::from(ranks.levels));
    for level in (1..=ranks.levels).rev() {
        let (start, count) =
            path.last().map_or((&[][..], ranks.top_nodes), |node| (&node.place, node.children));
        let family_key = key(object, level, start);
        let mut family = family(txn, &family_key, level_end(object, level), count)?;
        let behind = family.partition_point(|node| *node.place <= *place);
        let node = behind.checked_sub(1).and_then(|at| family.get_mut(at));
        let node = node.ok_or_else(|| malformed("rank index without its first node"))?;
        let members = if is_added { Some(node.members + 1) } else { node.members.checked_sub(1) };
        node.members = members.ok_or_else(|| malformed("count of a rank index"))?;
        if level == 1 {
            node.children = node.members as u32;
        }
        path.push(node.clone());
        families.push((family_key, family));
    }
    path.reverse();
    let change = match is_added {
        true => split_full(txn, ranks, object, path)?,
        false => remove_empty(txn, ranks, object, path)?,
    };
    match change {
        NodeChange::None => {}
        NodeChange::LowestSplit(halves) => has_split(&mut families, halves),
        NodeChange::Other => return Ok(()),
    }
    families.into_iter().for_each(|(key, family)| txn.give_rank_nodes(key, family));
    Ok(())
}

/// How a change of one member changed which nodes there are.
enum NodeChange {
    /// Not at all.
    None,
    /// One of the lowest level became two, those above have the same places as before.
    LowestSplit([RankNode; 2]),
    /// Nodes of several levels were split or removed.
    Other,
}

/// Splits a node in the family of the lowest level, which is the last, and counts it in that of its parent.
fn has_split(families: &mut [(Vec<u8>, Family)], [first, second]: [RankNode; 2]) {
    let at = |family: &Family| family.partition_point(|node| node.place <= first.place) - 1;
    if let [.., (_, parents), _] = families {
        let parent = at(parents);
        parents[parent].children += 1;
    }
    if let [.., (_, nodes)] = families {
        let place = at(nodes);
        nodes.splice(place..=place, [first, second]);
    }
}

/// Writes the nodes of a path, lowest first, and splits those that have become too large (ZR3).
fn split_full(txn: &mut Txn<'_>, ranks: &mut Ranks, object: u64, path: Vec<RankNode>) -> Result<NodeChange> {
    let (mut is_split_below, mut change) = (false, NodeChange::None);
    for (level, mut node) in (1..).zip(path) {
        node.children += u32::from(is_split_below);
        is_split_below = node.children > MAX_CHILDREN;
        if is_split_below {
            let (first, second) = halves(txn, object, level, &node)?;
            put(txn, object, level, &first)?;
            put(txn, object, level, &second)?;
            change = if level == 1 { NodeChange::LowestSplit([first, second]) } else { NodeChange::Other };
        } else {
            put(txn, object, level, &node)?;
        }
    }
    ranks.top_nodes += u32::from(is_split_below);
    if ranks.top_nodes > MAX_CHILDREN {
        add_level(txn, ranks, object)?;
        change = NodeChange::Other;
    }
    Ok(change)
}

/// Two nodes in place of one, each with half its children.
fn halves(txn: &Txn<'_>, object: u64, level: u8, node: &RankNode) -> Result<(RankNode, RankNode)> {
    let half = node.children / 2;
    let mut members = 0;
    let start = key(object, level - 1, &node.place);
    let mut below = txn.range(Space::Orders, start..level_end(object, level - 1));
    for _ in 0..half {
        let (key, value) = below.next().ok_or_else(|| malformed("node without its children"))??;
        members += if level == 1 { 1 } else { decode(&key, &value)?.members };
    }
    let (key, _) = below.next().ok_or_else(|| malformed("node without its children"))??;
    let rest = node.members.checked_sub(members).ok_or_else(|| malformed("count of a rank index"))?;
    Ok((
        RankNode { place: node.place.clone(), members, children: half },
        RankNode { place: key[9..].to_vec(), members: rest, children: node.children - half },
    ))
}

/// Puts a level over the highest one.
fn add_level(txn: &mut Txn<'_>, ranks: &mut Ranks, object: u64) -> Result<()> {
    let nodes = txn.range(Space::Orders, key(object, ranks.levels, &[])..level_end(object, ranks.levels));
    let mut members = 0;
    for node in nodes {
        let (key, value) = node?;
        members += decode(&key, &value)?.members;
    }
    let all = RankNode { place: Vec::new(), members, children: ranks.top_nodes };
    ranks.levels += 1;
    let (first, second) = halves(txn, object, ranks.levels, &all)?;
    put(txn, object, ranks.levels, &first)?;
    put(txn, object, ranks.levels, &second)?;
    ranks.top_nodes = 2;
    Ok(())
}

/// Writes the nodes of a path, lowest first, without those that have become empty (ZR4).
fn remove_empty(
    txn: &mut Txn<'_>,
    ranks: &mut Ranks,
    object: u64,
    mut path: Vec<RankNode>,
) -> Result<NodeChange> {
    let is_removed = |at: &usize| {
        let first = path.get(at + 1).map_or(&[][..], |above| &above.place);
        path[*at].members == 0 && path[*at].place != first
    };
    // Below the highest empty node all are empty, so each has its first child alone, at its own place.
    let removed = (0..path.len()).rev().find(is_removed).map_or(0, |at| at + 1);
    for (highest, node) in (1..).zip(&path[..removed]) {
        for level in 1..=highest {
            txn.delete(Space::Orders, &key(object, level, &node.place))?;
        }
    }
    if removed > 0 {
        match path.get_mut(removed) {
            Some(above) => above.children = above.children.saturating_sub(1),
            None => ranks.top_nodes = ranks.top_nodes.saturating_sub(1),
        }
    }
    for (level, node) in (1..).zip(&path).skip(removed) {
        put(txn, object, level, node)?;
    }
    Ok(if removed == 0 { NodeChange::None } else { NodeChange::Other })
}

/// The number of members before a place.
pub(super) fn rank(txn: &Txn<'_>, ranks: Ranks, object: u64, place: &[u8]) -> Result<u64> {
    let mut before = 0;
    let mut start = Vec::new();
    for level in (1..=ranks.levels).rev() {
        let nodes = txn.range(Space::Orders, key(object, level, &start)..=key(object, level, place));
        let mut last: Option<RankNode> = None;
        for node in nodes {
            let (key, value) = node?;
            before += last.map_or(0, |node| node.members);
            last = Some(decode(&key, &value)?);
        }
        start = last.ok_or_else(|| malformed("rank index without its first node"))?.place;
    }
    for member in txn.range(Space::Orders, key(object, 0, &start)..key(object, 0, place)) {
        member?;
        before += 1;
    }
    Ok(before)
}

/// The place of the member with so many before it; the set has more.
pub(super) fn place_at(txn: &Txn<'_>, ranks: Ranks, object: u64, rank: u64) -> Result<Vec<u8>> {
    let mut before = rank;
    let mut start = Vec::new();
    for level in (1..=ranks.levels).rev() {
        for node in txn.range(Space::Orders, key(object, level, &start)..level_end(object, level)) {
            let (key, value) = node?;
            let node = decode(&key, &value)?;
            if before < node.members {
                start = node.place;
                break;
            }
            before -= node.members;
        }
    }
    let mut members = txn.range(Space::Orders, key(object, 0, &start)..level_end(object, 0));
    let skipped = usize::try_from(before).unwrap_or(usize::MAX);
    let (key, _) = members.nth(skipped).ok_or_else(|| malformed("rank index that counts too much"))??;
    Ok(key[9..].to_vec())
}

/// Makes the index of a set whose order stands.
pub(super) fn build(txn: &mut Txn<'_>, object: u64) -> Result<Ranks> {
    let mut ranks = Ranks::default();
    loop {
        let mut nodes: Vec<RankNode> = Vec::new();
        for below in txn.range(Space::Orders, key(object, ranks.levels, &[])..level_end(object, ranks.levels))
        {
            let (key, value) = below?;
            let members = if ranks.levels == 0 { 1 } else { decode(&key, &value)?.members };
            match nodes.last_mut().filter(|node| node.children < CHILDREN_AT_FIRST) {
                Some(node) => (node.members, node.children) = (node.members + members, node.children + 1),
                None => {
                    let place = if nodes.is_empty() { Vec::new() } else { key[9..].to_vec() };
                    nodes.push(RankNode { place, members, children: 1 });
                }
            }
        }
        ranks.levels += 1;
        ranks.top_nodes = nodes.len() as u32;
        for node in &nodes {
            put(txn, object, ranks.levels, node)?;
        }
        if ranks.top_nodes <= MAX_CHILDREN {
            return Ok(ranks);
        }
    }
}

/// Checks what holds, for tests: ZR1 to ZR3. Returns the number of members.
#[cfg(test)]
pub(super) fn check(txn: &Txn<'_>, ranks: Ranks, object: u64) -> u64 {
    let places = |level: u8| -> Vec<(Vec<u8>, Option<RankNode>)> {
        txn.range(Space::Orders, key(object, level, &[])..level_end(object, level))
            .map(|entry| {
                let (key, value) = entry.expect("readable");
                let node = (level > 0).then(|| decode(&key, &value).expect("a node"));
                (key[9..].to_vec(), node)
            })
            .collect()
    };
    let mut below = places(0);
    let members = below.len() as u64;
    for level in 1..=ranks.levels {
        let nodes = places(level);
        assert!(nodes[0].0.is_empty());
        for (at, (place, node)) in nodes.iter().enumerate() {
            let node = node.as_ref().expect("a node");
            let is_inside = |other: &[u8]| {
                other >= &place[..] && nodes.get(at + 1).is_none_or(|(next, _)| other < &next[..])
            };
            let children: Vec<_> = below.iter().filter(|(other, _)| is_inside(other)).collect();
            let sum = children.iter().map(|(_, node)| node.as_ref().map_or(1, |node| node.members)).sum();
            assert_eq!((node.members, node.children as usize), (sum, children.len()), "level {level}");
            assert!(node.children <= MAX_CHILDREN);
            assert!(level == 1 || children[0].0 == *place, "level {level}");
            let empty = |(_, node): &&(Vec<u8>, Option<RankNode>)| {
                node.as_ref().is_some_and(|node| node.members == 0)
            };
            assert!(!children.iter().skip(1).any(empty), "level {level}");
        }
        below = nodes;
    }
    if ranks.levels > 0 {
        assert_eq!(below.len() as u32, ranks.top_nodes);
        assert!(ranks.top_nodes <= MAX_CHILDREN);
    }
    members
}
