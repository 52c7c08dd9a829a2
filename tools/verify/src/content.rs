//! Contents of packets. Each content is stored once.

use rustc_hash::FxHashMap;
use tributary_wire::{Operator, Totals, ValuesView, values};

/// The number of a content.
pub(crate) type ContentId = u16;

/// A set of pairs of worker and slice, with one bit for each pair.
pub(crate) type Origins = u64;

/// The largest number of workers, and of slices, for which the set has bits.
pub(crate) const MOST: u8 = 8;

pub(crate) fn origin(worker: u8, slice: u8) -> Origins {
    1 << (worker % MOST * MOST + slice % MOST)
}

/// A slice's values, and its other aggregated fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    pub(crate) operator: Operator,
    pub(crate) totals: Totals,
    bytes: Box<[u8]>,
}

impl Content {
    pub(crate) fn values(&self) -> ValuesView<'_> {
        ValuesView::new(&self.bytes)
    }

    /// Returns true if `other` differs at most in the tag.
    ///
    /// The server vouches for the content with the tag, and the receiver verifies it.
    pub(crate) fn is_served_as(&self, other: &Self) -> bool {
        let totals = Totals { tag: other.totals.tag, ..self.totals };
        (self.operator, totals, &self.bytes) == (other.operator, other.totals, &other.bytes)
    }
}

/// All contents that the check has found.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    all: Vec<Content>,
    /// The contributions that each content contains.
    from: Vec<Origins>,
    ids: FxHashMap<Content, ContentId>,
    sums: FxHashMap<(ContentId, ContentId), ContentId>,
}

impl Contents {
    pub(crate) fn get(&self, id: ContentId) -> Option<&Content> {
        self.all.get(usize::from(id))
    }

    pub(crate) fn origins(&self, id: ContentId) -> Origins {
        self.from.get(usize::from(id)).copied().unwrap_or_default()
    }

    /// Records that a content contains these contributions.
    pub(crate) fn is_from(&mut self, id: ContentId, origins: Origins) {
        if let Some(from) = self.from.get_mut(usize::from(id)) {
            *from |= origins;
        }
    }

    pub(crate) fn intern(&mut self, operator: Operator, totals: Totals, numbers: &[i32]) -> ContentId {
        let content = Content { operator, totals, bytes: values::to_bytes(numbers).into() };
        if let Some(&id) = self.ids.get(&content) {
            return id;
        }
        let id = self.all.len() as ContentId;
        self.all.push(content.clone());
        self.from.push(0);
        self.ids.insert(content, id);
        id
    }

    /// Adds two contents as a switch does. The sum has the operator of the first content, as in a slot.
    pub(crate) fn add(&mut self, a: ContentId, b: ContentId) -> ContentId {
        if let Some(&sum) = self.sums.get(&(a, b)) {
            return sum;
        }
        let (Some(first), Some(second)) = (self.get(a), self.get(b)) else { return a };
        let (operator, mut totals) = (first.operator, first.totals);
        totals.add(second.totals);
        let combine = |(x, y): (i32, i32)| match operator {
            Operator::Sum => x.wrapping_add(y),
            Operator::Max => (x & i32::MAX).max(y & i32::MAX),
            // Switches and the server add no relayed slices.
            Operator::Relay => x,
        };
        let numbers: Vec<i32> = first.values().iter().zip(second.values().iter()).map(combine).collect();
        let sum = self.intern(operator, totals, &numbers);
        self.is_from(sum, self.origins(a) | self.origins(b));
        self.sums.insert((a, b), sum);
        sum
    }
}
