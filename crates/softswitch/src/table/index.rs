//! Finds the entry for a packet's key.
//!
//! Exact keys are found by their hash. If one field matches by its prefix, there is a hash table
//! for each prefix length, and the lookup tries the longest prefixes first. All other entries are
//! compared one after the other, in the order of their priority and of their memory. The comparison
//! begins with the word of the key that distinguishes most entries.

use rustc_hash::FxHashMap;

use crate::processor::has_vectors;
use crate::program::{MAX_KEY_WORDS, MatchKind, Pattern, TableProgram};

/// The entries of a table by their keys. An entry is represented by the index of its place.
#[derive(Debug, Clone)]
pub(super) enum Index {
    /// The table cannot have entries.
    None,
    Exact(ByHash),
    Prefixes(Prefixes),
    Ordered(Ordered),
}

impl Index {
    pub(super) fn new(program: &TableProgram) -> Self {
        let words = program.key_words;
        let mut others = program.key.iter().map(|field| field.kind).filter(|kind| *kind != MatchKind::Exact);
        match (others.next(), others.next()) {
            _ if words == 0 => Self::None,
            (None, _) => Self::Exact(ByHash::new(words)),
            (Some(MatchKind::Lpm), None) => Self::Prefixes(Prefixes::new(words)),
            _ => {
                let ranges = program.key.iter().filter(|field| field.kind == MatchKind::Range);
                Self::Ordered(Ordered::new(words, ranges.fold(0, |ranges, field| ranges | 1 << field.word)))
            }
        }
    }

    /// Returns the entry that a packet with this key matches.
    #[inline]
    pub(super) fn look_up(&self, key: &[u64]) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Exact(entries) => entries.get(key),
            Self::Prefixes(prefixes) => prefixes.look_up(key),
            Self::Ordered(ordered) => ordered.look_up(key),
        }
    }

    /// Returns the entry with exactly this pattern.
    pub(super) fn find(&self, pattern: &Pattern) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Exact(entries) => entries.get(&pattern.value),
            Self::Prefixes(prefixes) => prefixes.find(pattern),
            Self::Ordered(ordered) => ordered.places.get(pattern).copied(),
        }
    }

    /// Adds an entry. No other entry may have its pattern.
    pub(super) fn add(&mut self, pattern: &Pattern, at: u32) {
        match self {
            Self::None => {}
            Self::Exact(entries) => entries.insert(&pattern.value, at),
            Self::Prefixes(prefixes) => prefixes.add(pattern, at),
            Self::Ordered(ordered) => ordered.add(pattern, at),
        }
    }

    /// Removes an existing entry.
    pub(super) fn remove(&mut self, pattern: &Pattern) {
        match self {
            Self::None => {}
            Self::Exact(entries) => entries.remove(&pattern.value),
            Self::Prefixes(prefixes) => prefixes.remove(pattern),
            Self::Ordered(ordered) => ordered.remove(pattern),
        }
    }
}

/// Entries by the whole key. Most keys are a single word.
#[derive(Debug, Clone)]
pub(super) enum ByHash {
    Word(FxHashMap<u64, u32>),
    Words(FxHashMap<Vec<u64>, u32>),
}

impl ByHash {
    fn new(words: usize) -> Self {
        if words == 1 { Self::Word(FxHashMap::default()) } else { Self::Words(FxHashMap::default()) }
    }

    #[inline]
    fn get(&self, key: &[u64]) -> Option<u32> {
        match self {
            Self::Word(entries) => entries.get(key.first()?).copied(),
            Self::Words(entries) => entries.get(key).copied(),
        }
    }

    fn insert(&mut self, key: &[u64], at: u32) {
        match self {
            Self::Word(entries) => entries.insert(key.first().copied().unwrap_or(0), at),
            Self::Words(entries) => entries.insert(key.to_vec(), at),
        };
    }

    fn remove(&mut self, key: &[u64]) {
        match self {
            Self::Word(entries) => key.first().and_then(|word| entries.remove(word)),
            Self::Words(entries) => entries.remove(key),
        };
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Word(entries) => entries.is_empty(),
            Self::Words(entries) => entries.is_empty(),
        }
    }
}

/// Entries by the length of their prefix.
#[derive(Debug, Clone)]
pub(super) struct Prefixes {
    /// Number of words in a key.
    words: usize,
    /// The entries by prefix length, the longest first. No length is without entries.
    lengths: Vec<OfLength>,
}

/// All entries with prefixes of one length.
#[derive(Debug, Clone)]
struct OfLength {
    /// The bits of a key that are compared.
    mask: Vec<u64>,
    entries: ByHash,
}

impl OfLength {
    /// Returns the number of bits that are compared.
    fn bits(&self) -> u32 {
        ones(&self.mask)
    }
}

impl Prefixes {
    fn new(words: usize) -> Self {
        Self { words, lengths: Vec::new() }
    }

    #[inline]
    fn look_up(&self, key: &[u64]) -> Option<u32> {
        // Mostly, an address is the whole key.
        if let [word] = key {
            let find = |OfLength { mask, entries }: &OfLength| entries.get(&[word & mask.first()?]);
            return self.lengths.iter().find_map(find);
        }
        let mut masked = [0; MAX_KEY_WORDS];
        self.lengths.iter().find_map(|OfLength { mask, entries }| {
            masked.iter_mut().zip(key).zip(mask).for_each(|((to, word), mask)| *to = word & mask);
            entries.get(&masked[..self.words])
        })
    }

    /// Returns the position of the prefixes of this length, or the position at which to insert
    /// them.
    fn place(&self, mask: &[u64]) -> Result<usize, usize> {
        let bits = ones(mask);
        self.lengths.binary_search_by(|of_length| bits.cmp(&of_length.bits()))
    }

    fn find(&self, pattern: &Pattern) -> Option<u32> {
        let at = self.place(&pattern.mask).ok()?;
        self.lengths[at].entries.get(&pattern.value)
    }

    fn add(&mut self, pattern: &Pattern, at: u32) {
        let length = self.place(&pattern.mask).unwrap_or_else(|free| {
            let entries = ByHash::new(self.words);
            self.lengths.insert(free, OfLength { mask: pattern.mask.clone(), entries });
            free
        });
        self.lengths[length].entries.insert(&pattern.value, at);
    }

    fn remove(&mut self, pattern: &Pattern) {
        let Ok(length) = self.place(&pattern.mask) else { return };
        self.lengths[length].entries.remove(&pattern.value);
        if self.lengths[length].entries.is_empty() {
            self.lengths.remove(length);
        }
    }
}

/// Entries in the order of their rank.
#[derive(Debug, Clone)]
pub(super) struct Ordered {
    /// The place of each entry by its pattern, for the control plane.
    places: FxHashMap<Pattern, u32>,
    /// The place of each entry, ordered by rank.
    order: Vec<u32>,
    /// The rank of each entry, in the same order.
    ranks: Vec<Rank>,
    /// For each word of a key, the values with which the entries compare it, in the same order.
    columns: Vec<Column>,
    /// The column with the most compared bits. The lookup begins there, because few entries match
    /// it.
    first: usize,
}

/// The rank among entries that match: by priority, then by the number of compared bits.
type Rank = (i32, u32);

impl Ordered {
    /// Creates an index for keys of `words` words; bit n of `ranges` is set if word n is a range.
    fn new(words: usize, ranges: u32) -> Self {
        Self {
            places: FxHashMap::default(),
            order: Vec::new(),
            ranks: Vec::new(),
            columns: (0..words).map(|word| Column::new(ranges >> word & 1 == 1)).collect(),
            first: 0,
        }
    }

    #[inline]
    fn look_up(&self, key: &[u64]) -> Option<u32> {
        let (first, word) = (self.columns.get(self.first)?, *key.get(self.first)?);
        let matches =
            |at: &usize| self.columns.iter().zip(key).all(|(column, word)| column.matches(*at, *word));
        let mut begin = 0;
        while let Some(block) = first.next_block(begin, word) {
            begin = block + BLOCK;
            if let Some(at) = (block..begin).find(matches) {
                return self.order.get(at).copied();
            }
        }
        None
    }

    fn add(&mut self, pattern: &Pattern, at: u32) {
        let rank = (pattern.priority, ones(&pattern.mask));
        // The entry goes behind the entries of the same rank, so that the oldest of them stays
        // first.
        let place = self.ranks.partition_point(|other| *other >= rank);
        self.ranks.insert(place, rank);
        self.order.insert(place, at);
        for (column, (value, mask)) in self.columns.iter_mut().zip(pattern.value.iter().zip(&pattern.mask)) {
            column.insert(place, *value, *mask, self.order.len());
        }
        self.choose_first();
        self.places.insert(pattern.clone(), at);
    }

    fn remove(&mut self, pattern: &Pattern) {
        let Some(at) = self.places.remove(pattern) else { return };
        let Some(place) = self.order.iter().position(|other| *other == at) else { return };
        self.order.remove(place);
        self.ranks.remove(place);
        let entries = self.order.len();
        self.columns.iter_mut().for_each(|column| column.remove(place, entries));
        self.choose_first();
    }

    fn choose_first(&mut self) {
        let most = self.columns.iter().enumerate().max_by_key(|(_, column)| column.counting);
        self.first = most.map_or(0, |(at, _)| at);
    }
}

/// Number of entries that are compared at once.
const BLOCK: usize = 8;
/// A value and a mask that no word matches, neither as a masked value nor as a range.
const NOTHING: (u64, u64) = (1, 0);

/// The values that entries compare with one word of a key.
/// Whole blocks are filled with values that nothing matches.
#[derive(Debug, Clone)]
struct Column {
    is_range: bool,
    /// The values to compare with; for a range, the lowest values.
    values: Vec<u64>,
    /// The bits to compare; for a range, the highest values.
    masks: Vec<u64>,
    /// Number of compared bits in all entries together; 0 for ranges.
    counting: u64,
    /// True if the processor's wide vectors are used.
    has_vectors: bool,
}

impl Column {
    fn new(is_range: bool) -> Self {
        Self { is_range, values: Vec::new(), masks: Vec::new(), counting: 0, has_vectors: has_vectors() }
    }

    fn matches(&self, at: usize, word: u64) -> bool {
        match (self.values.get(at), self.masks.get(at)) {
            (Some(low), Some(high)) if self.is_range => (*low..=*high).contains(&word),
            (Some(value), Some(mask)) => word & mask == *value,
            _ => false,
        }
    }

    /// Returns the start of the next block, from `begin` on, in which an entry matches.
    #[inline]
    #[allow(unsafe_code)]
    fn next_block(&self, begin: usize, word: u64) -> Option<usize> {
        #[cfg(target_arch = "x86_64")]
        if self.has_vectors {
            // SAFETY: `has_vectors` is true only if the processor has AVX2, among others.
            return unsafe { self.next_block_with_vectors(begin, word) };
        }
        self.next_block_of(begin, word)
    }

    /// Returns the same block as [`next_block`](Self::next_block), with AVX2: one instruction
    /// compares four entries.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn next_block_with_vectors(&self, begin: usize, word: u64) -> Option<usize> {
        self.next_block_of(begin, word)
    }

    #[inline(always)]
    fn next_block_of(&self, begin: usize, word: u64) -> Option<usize> {
        let (values, _) = self.values.get(begin..)?.as_chunks::<BLOCK>();
        let (masks, _) = self.masks.get(begin..)?.as_chunks::<BLOCK>();
        let mut blocks = values.iter().zip(masks);
        // The loop has no branch for each entry, so that the processor compares all entries of a block
        // at once.
        let found = if self.is_range {
            blocks.position(|(low, high)| {
                low.iter().zip(high).fold(false, |any, (low, high)| any | (*low <= word) & (word <= *high))
            })
        } else {
            blocks.position(|(values, masks)| {
                values.iter().zip(masks).fold(false, |any, (value, mask)| any | (word & mask == *value))
            })
        };
        found.map(|block| begin + block * BLOCK)
    }

    /// Inserts a value at a position; `entries` is the number of entries after the insertion.
    fn insert(&mut self, place: usize, value: u64, mask: u64, entries: usize) {
        self.values.insert(place, value);
        self.masks.insert(place, mask);
        self.counting += self.bits(mask);
        self.fill_up(entries);
    }

    /// Removes the value at a position; `entries` is the number of entries after the removal.
    fn remove(&mut self, place: usize, entries: usize) {
        self.values.remove(place);
        let mask = self.masks.remove(place);
        self.counting -= self.bits(mask);
        self.fill_up(entries);
    }

    fn bits(&self, mask: u64) -> u64 {
        if self.is_range { 0 } else { mask.count_ones().into() }
    }

    fn fill_up(&mut self, entries: usize) {
        for (words, nothing) in [(&mut self.values, NOTHING.0), (&mut self.masks, NOTHING.1)] {
            words.truncate(entries);
            words.resize(entries.next_multiple_of(BLOCK), nothing);
        }
    }
}

fn ones(mask: &[u64]) -> u32 {
    mask.iter().map(|word| word.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORDS: usize = 2;

    /// An index, and a list of all its entries.
    struct Checked {
        index: Index,
        entries: Vec<(Pattern, u32)>,
        ranges: u32,
    }

    impl Checked {
        /// Returns true if an entry matches. It compares bit by bit, following the definition of a
        /// match.
        fn matches(&self, pattern: &Pattern, key: &[u64]) -> bool {
            (0..key.len()).all(|at| {
                let (value, mask) = (pattern.value[at], pattern.mask[at]);
                if self.ranges >> at & 1 == 1 {
                    (value..=mask).contains(&key[at])
                } else {
                    key[at] & mask == value
                }
            })
        }

        /// Adds a pattern that the index does not have, or removes a pattern that it has.
        fn change(&mut self, pattern: Pattern, at: u32) {
            let found = self.entries.iter().position(|(other, _)| *other == pattern);
            assert_eq!(self.index.find(&pattern), found.map(|found| self.entries[found].1));
            match found {
                Some(found) => {
                    self.index.remove(&pattern);
                    self.entries.remove(found);
                }
                None => {
                    self.index.add(&pattern, at);
                    self.entries.push((pattern, at));
                }
            }
        }

        fn check(&self, key: &[u64]) {
            let rank = |pattern: &Pattern| (pattern.priority, ones(&pattern.mask));
            let mut matching: Vec<_> =
                self.entries.iter().filter(|(pattern, _)| self.matches(pattern, key)).collect();
            // Of entries with the same rank, the oldest wins. A stable sort keeps their order.
            matching.sort_by_key(|(pattern, _)| std::cmp::Reverse(rank(pattern)));
            assert_eq!(self.index.look_up(key), matching.first().map(|(_, at)| *at));
        }
    }

    /// Generates words of few values, so that entries overlap and keys match them.
    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![0..4u64, (0..4u64).prop_map(|high| high << 62)]
    }

    fn ternary() -> impl Strategy<Value = Pattern> {
        let mask = prop_oneof![Just(0), Just(u64::MAX), Just(1), Just(3 << 62)];
        let words = prop::collection::vec((word(), mask), WORDS);
        (words, 0..3i32).prop_map(|(words, priority)| Pattern {
            value: words.iter().map(|(value, mask)| value & mask).collect(),
            mask: words.iter().map(|(_, mask)| *mask).collect(),
            priority,
        })
    }

    /// Generates a pattern whose first word must be equal, and whose second word matches by its
    /// prefix.
    fn prefix() -> impl Strategy<Value = Pattern> {
        (word(), word(), 0..=64u32).prop_map(|(first, second, length)| {
            let mask = !u64::MAX.checked_shr(length).unwrap_or(0);
            Pattern { value: vec![first, second & mask], mask: vec![u64::MAX, mask], priority: 0 }
        })
    }

    /// Generates a pattern whose first word is a range.
    fn range() -> impl Strategy<Value = Pattern> {
        (word(), word(), ternary()).prop_map(|(low, high, mut pattern)| {
            (pattern.value[0], pattern.mask[0]) = (low.min(high), low.max(high));
            pattern
        })
    }

    fn run(index: Index, ranges: u32, patterns: Vec<Pattern>, keys: &[Vec<u64>]) {
        let mut checked = Checked { index, entries: Vec::new(), ranges };
        for (pattern, at) in patterns.into_iter().zip(0..) {
            checked.change(pattern, at);
            keys.iter().for_each(|key| checked.check(key));
        }
    }

    fn keys() -> impl Strategy<Value = Vec<Vec<u64>>> {
        prop::collection::vec(prop::collection::vec(word(), WORDS), 8)
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found(patterns in prop::collection::vec(prefix(), 0..60), keys in keys()) {
            run(Index::Prefixes(Prefixes::new(WORDS)), 0, patterns, &keys);
        }

        #[test]
        fn the_longest_prefix_of_a_single_word_is_found(
            patterns in prop::collection::vec(prefix(), 0..60), keys in keys()
        ) {
            let only = |words: Vec<u64>| words[1..].to_vec();
            let patterns = patterns.into_iter().map(|Pattern { value, mask, priority }| {
                Pattern { value: only(value), mask: only(mask), priority }
            });
            let keys: Vec<_> = keys.into_iter().map(only).collect();
            run(Index::Prefixes(Prefixes::new(1)), 0, patterns.collect(), &keys);
        }

        #[test]
        fn the_most_important_entry_is_found(patterns in prop::collection::vec(ternary(), 0..60), keys in keys()) {
            run(Index::Ordered(Ordered::new(WORDS, 0)), 0, patterns, &keys);
        }

        #[test]
        fn ranges_are_found(patterns in prop::collection::vec(range(), 0..60), keys in keys()) {
            run(Index::Ordered(Ordered::new(WORDS, 1)), 1, patterns, &keys);
        }
    }
}
