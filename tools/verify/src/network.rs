//! Packets in flight.

use rustc_hash::FxHashMap;

use crate::Error;
use crate::content::ContentId;
use crate::setup::Node;

/// A packet on its way to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Packet {
    /// A GRADIENT; a PROBE if `content` is `None`.
    Up {
        to: Node,
        child: u8,
        generation: u8,
        slice: u8,
        rank: u8,
        retransmit: bool,
        content: Option<ContentId>,
    },
    /// A RESULT for the worker `rank`; for all workers if `rank` is `None`.
    Down { to: Node, generation: u8, slice: u8, rank: Option<u8>, content: ContentId },
}

impl Packet {
    pub(crate) fn to(&self) -> Node {
        match *self {
            Self::Up { to, .. } | Self::Down { to, .. } => to,
        }
    }

    /// Returns the packet that represents this packet in a network where packets stay deliverable forever.
    ///
    /// Returns `None` if the packet makes no difference. In such a network, the sender and the number of
    /// copies do not matter, and neither do requests and the answers to requests.
    pub(crate) fn lasting(self) -> Option<Self> {
        match self {
            Self::Up { content: None, .. } | Self::Down { rank: Some(_), .. } => None,
            Self::Up { to, child, generation, slice, content, .. } => {
                Some(Self::Up { to, child, generation, slice, rank: 0, retransmit: false, content })
            }
            Self::Down { .. } => Some(self),
        }
    }
}

/// Number of words in a [`Net`].
const WORDS: usize = 4;
/// The largest number of different packets.
const MOST: usize = WORDS * 64;

/// A set of packets, with one bit for each packet id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Net([u64; WORDS]);

impl Net {
    /// Inserts a packet. Returns true if it was not in the set.
    pub(crate) fn insert(&mut self, at: u16) -> bool {
        let Some(word) = self.0.get_mut(usize::from(at / 64)) else { return false };
        let before = *word;
        *word |= 1 << (at % 64);
        *word != before
    }

    pub(crate) fn remove(&mut self, at: u16) {
        if let Some(word) = self.0.get_mut(usize::from(at / 64)) {
            *word &= !(1 << (at % 64));
        }
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u16> {
        self.0.into_iter().zip(0u16..).flat_map(|(mut word, index)| {
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as u16;
                word &= word.checked_sub(1)?;
                Some(index * 64 + bit)
            })
        })
    }
}

/// All lasting packets that the check has found.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    all: Vec<Packet>,
    ids: FxHashMap<Packet, u16>,
}

impl Packets {
    pub(crate) fn id(&mut self, packet: Packet) -> Result<u16, Error> {
        if let Some(&id) = self.ids.get(&packet) {
            return Ok(id);
        }
        let id = self.all.len();
        if id == MOST {
            return Err(Error::TooLarge(MOST));
        }
        self.all.push(packet);
        self.ids.insert(packet, id as u16);
        Ok(id as u16)
    }

    /// Returns the RESULTs for workers that the check has found.
    pub(crate) fn to_workers(&self) -> impl Iterator<Item = Packet> + '_ {
        self.all.iter().copied().filter(|packet| matches!(packet.to(), Node::Worker(_)))
    }

    /// Returns the packet with an id that [`id`](Self::id) has returned.
    pub(crate) fn get(&self, id: u16) -> Packet {
        let nothing = Packet::Down { to: Node::Server, generation: 0, slice: 0, rank: None, content: 0 };
        self.all.get(usize::from(id)).copied().unwrap_or(nothing)
    }
}
