//! Node growth: a copy of a node with a place for one more child.

use super::{
    ArtHeader, ArtNode, BODY, CAPACITY, CHILDREN, CLASS_16, CLASS_48, CLASS_256, CLASS_ROW, UPPER_HALF,
    VALUE, WORDS,
};
use crate::arena::Allocator;
use crate::memory::Memory;

impl ArtNode {
    /// An unpublished copy of a larger class with one more child.
    #[inline(never)]
    pub(super) fn grown(
        self,
        memory: &Memory,
        allocator: &mut Allocator,
        header: ArtHeader,
        byte: u8,
        child: u32,
    ) -> u32 {
        let mut children = Children::default();
        self.gather(memory, header, &mut children);
        children.push(byte, child);
        let class = children.class();
        let node = ArtNode::from_reference(allocator.node(WORDS[class]));
        for word in VALUE..BODY {
            memory.init(node.at + word, memory.peek(self.at + word));
        }
        let new_meta = match class {
            CLASS_ROW => ArtHeader::row(byte, header.depth()),
            CLASS_256 => ArtHeader::all(header.depth()),
            _ => ArtHeader::counted(class, children.count, header.depth()),
        };
        memory.init(node.at, new_meta.0);
        node.init_children(memory, new_meta, &children);
        node.reference()
    }

    /// Collects all children, for the writer.
    fn gather(self, memory: &Memory, header: ArtHeader, children: &mut Children) {
        if header.is_small() {
            for place in 0..header.count() {
                let key = memory.peek(self.at + BODY + place / 4) >> (place % 4 * 8);
                children.push(key as u8, memory.peek(self.small_slot(header, place)));
            }
            return;
        }
        for byte in self.bytes_within(header, 0, 256) {
            if let Some(slot) = self.find(memory, header, byte as u8) {
                children.push(byte as u8, memory.peek(slot));
            }
        }
    }

    /// Writes the body of an unpublished node.
    fn init_children(self, memory: &Memory, header: ArtHeader, children: &Children) {
        let references = self.at + CHILDREN[header.class()];
        let all = || children.bytes.iter().zip(children.references).take(children.count);
        if header.class() >= CLASS_ROW {
            let mut places = [0; CAPACITY[CLASS_256]];
            for (byte, reference) in all() {
                places[(byte ^ header.first_byte()) as usize] = reference;
            }
            let used = places.into_iter().take(CAPACITY[header.class()]);
            used.enumerate().for_each(|(place, reference)| memory.init(references + place, reference));
            return;
        }
        for (place, (_, reference)) in all().enumerate() {
            memory.init(references + place, reference);
        }
        if header.class() == CLASS_16 {
            return self.init_bytes::<16>(memory, std::array::from_fn(|place| children.bytes[place]));
        }
        let mut index = [0u8; 256];
        for (place, (&byte, _)) in all().enumerate() {
            index[byte as usize] = place as u8 + 1;
        }
        self.init_bytes(memory, index);
    }

    /// Writes the words between the head and the references.
    fn init_bytes<const N: usize>(self, memory: &Memory, bytes: [u8; N]) {
        for (word, bytes) in bytes.as_chunks::<4>().0.iter().enumerate() {
            memory.init(self.at + BODY + word, u32::from_le_bytes(*bytes));
        }
    }
}

struct Children {
    count: usize,
    bytes: [u8; CAPACITY[CLASS_48] + 1],
    references: [u32; CAPACITY[CLASS_48] + 1],
}

impl Default for Children {
    fn default() -> Children {
        Children { count: 0, bytes: [0; CAPACITY[CLASS_48] + 1], references: [0; CAPACITY[CLASS_48] + 1] }
    }
}

impl Children {
    fn push(&mut self, byte: u8, reference: u32) {
        self.bytes[self.count] = byte;
        self.references[self.count] = reference;
        self.count += 1;
    }

    /// The class of a node that grew to these children.
    fn class(&self) -> usize {
        let bytes = &self.bytes[..self.count];
        if bytes.iter().all(|byte| (byte ^ bytes[0]) & UPPER_HALF == 0) {
            return CLASS_ROW;
        }
        [CLASS_16, CLASS_48].into_iter().find(|&class| self.count <= CAPACITY[class]).unwrap_or(CLASS_256)
    }
}
